#include "ndp/jobs/training_costs.h"

#include <algorithm>
#include <chrono>

#include "framework/core/error.h"
#include "framework/core/thread_pool.h"
#include "framework/pipeline/planner/stage_exchange.h"
#include "framework/pipeline/profiler/measure_profile.h"
#include "framework/train/random_rows.h"

namespace ndtrain::ndp {
namespace {

// What a profile takes at most, in about as much time as collectives are measured for.
constexpr std::chrono::seconds kProfiling{3};
constexpr int kProfiledSteps = 20;

TrainingCosts costs_of_share(const ModelProfile& profile, int ranks, double share) {
  std::vector<const NodeProfile*> nodes;
  for (const int i : execution_order(profile)) {
    const NodeProfile& n = profile.nodes[static_cast<size_t>(i)];
    if (!n.is_input()) nodes.push_back(&n);
  }
  // What is between them is set later.
  const Topology::Level unknown{.units = ranks, .all_reduce_bytes_per_s = 1, .p2p_bytes_per_s = 1};
  TrainingCosts costs{.step =
                          exchange_costs(nodes, {.levels = {unknown}}, {.first = 0, .count = ranks},
                                         profile.optimizer_s_per_byte, share)};
  costs.step.ranks = ranks;
  costs.step.layers.front().forward_s += (profile.load_s() + profile.copy_s()) * share;
  return costs;
}

}  // namespace

TrainingCosts costs_of(const ModelProfile& profile, int ranks) {
  TrainingCosts costs = costs_of_share(profile, ranks, 1.0 / ranks);
  costs.rows = profile.batch;
  return costs;
}

std::vector<Shape> shapes_of(const Model& model, std::span<const std::string> parameters) {
  std::vector<Shape> shapes;
  for (const std::string& name : parameters) {
    const auto at = model.initialisers.find(name);
    if (at == model.initialisers.end()) throw Error("the model has no parameter '", name, "'");
    shapes.push_back(at->second.shape());
  }
  return shapes;
}

TrainingCosts measure_training_costs(const Model& model, std::span<const std::string> trainable,
                                     const TrainerConfig& config, int ranks, const Device& device,
                                     Clock& clock, const std::function<bool()>& go_on) {
  const int64_t rows = std::max<int64_t>(1, config.batch / ranks);
  TensorDataset noise = random_rows(model, rows, config.seed);
  const auto begun = clock.monotonic();
  const auto on_step = [&](int) {
    return clock.monotonic() - begun < kProfiling && (!go_on || go_on());
  };
  const ModelProfile profile = measure_profile(model, trainable, device, noise,
                                               {.model = "model",
                                                .batch = rows,
                                                .steps = kProfiledSteps,
                                                .compute = config.compute,
                                                .optimizer = config.optimizer,
                                                .seed = config.seed,
                                                .on_step = on_step},
                                               clock);
  TrainingCosts costs = costs_of_share(profile, ranks, 1);
  costs.tensors = shapes_of(model, trainable);
  costs.work = measure_exchange_work(config.optimizer, clock);
  costs.threads = shared_threads().threads();
  costs.rows = config.batch;
  return costs;
}

}  // namespace ndtrain::ndp
