// What a plan says that a stage holds is what its rank holds when it trains.
#include <gtest/gtest.h>

#include "framework/pipeline/planner/planner.h"
#include "framework/pipeline/profiler/measure_profile.h"
#include "framework/pipeline/run/pipeline_training.h"
#include "framework/pipeline/run/stage_cuts.h"
#include "framework/train/head.h"
#include "framework/train/random_rows.h"
#include "models/zoo.h"
#include "tests/parallel/training_by_ranks.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

constexpr int64_t kBatch = 16, kSteps = 3;

struct Case {
  const char* model;
  const char* schedule;
  PlanPreset preset;
  int64_t most_micro_batches;
  size_t slow_nodes = 0;  // the first so many take all the time; 0: as measured
};

class StageMemory : public ::testing::TestWithParam<Case> {};

TEST_P(StageMemory, IsThatOfTheRanks) {
  const Model m = build_model(GetParam().model, {.classes = 10, .img_size = 64});
  const std::vector<std::string> trained = trainable_parameters(m, "none");
  TensorDataset rows = random_rows(m, kBatch * kSteps, 1);
  const OptimizerConfig sgd{.kind = OptimizerConfig::Kind::kSgd};
  ModelProfile profile = measure_profile(
      m, trained, testing::cpu(), rows,
      {.model = GetParam().model, .batch = kBatch, .steps = 2, .optimizer = sgd}, system_clock());
  // So the stages are cut where half of them are.
  for (size_t n = 0; n < profile.nodes.size() && GetParam().slow_nodes > 0; ++n) {
    NodeProfile& node = profile.nodes[n];
    node.forward = node.input_gradient = node.weight_gradient =
        NodeTime::exactly(n < GetParam().slow_nodes ? 0.1 : 1e-6);
  }
  Topology network;
  network.levels.push_back({.units = 2, .all_reduce_bytes_per_s = 1e8, .p2p_bytes_per_s = 1e8});
  const PipelinePlan plan = plan_pipeline(profile, network,
                                          {.preset = GetParam().preset,
                                           .schedule = GetParam().schedule,
                                           .most_micro_batches = GetParam().most_micro_batches});
  PipelineTraining::Options options{.schedule = plan.schedule, .drain_every = kSteps};
  for (const PlannedStage& s : plan.stages) options.replicas.push_back(s.replicas);
  options.cut = [&](const StepGraph& step, int) {
    std::vector<std::vector<std::string>> names;
    for (const PlannedStage& s : plan.stages) names.push_back(s.nodes);
    return cut_by_names(step, names);
  };
  TrainerConfig config{.epochs = 1, .batch = kBatch, .optimizer = sgd};
  config.accumulate = plan.micro_batches;
  auto transports = memory_transports(2);
  std::vector<std::jthread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      TensorDataset own = random_rows(m, kBatch * kSteps, 1);
      PipelineTraining training(m, trained, testing::cpu(), config,
                                testing::talk(std::move(transports[static_cast<size_t>(r)])),
                                options);
      EpochResult result;
      EXPECT_TRUE(training.train_epoch(own, result));
      const PlannedStage& stage = plan.stages[plan.stages.size() > 1 ? static_cast<size_t>(r) : 0];
      // Pieces of others' sums lie in memory of the communicator.
      const double exchanged =
          stage.replicas > 1 ? static_cast<double>(training.parameter_count() * 4) : 0;
      const double ratio =
          (static_cast<double>(training.memory_bytes()) + exchanged) / stage.memory_bytes;
      EXPECT_GT(ratio, 0.88) << "rank " << r << " of " << plan.text();
      EXPECT_LT(ratio, 1.12) << "rank " << r << " of " << plan.text();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(
    Plans, StageMemory,
    ::testing::Values(Case{"resnet18", "1f1b", PlanPreset::kPipeline, 4},
                      Case{"squeezenet1_1", "1f1b", PlanPreset::kDataParallel, 1},
                      Case{"squeezenet1_1", "1f1b", PlanPreset::kPipeline, 4},
                      Case{"squeezenet1_1", "gpipe", PlanPreset::kPipeline, 2},
                      Case{"squeezenet1_1", "async", PlanPreset::kPipeline, 1},
                      Case{"squeezenet1_1", "async", PlanPreset::kPipeline, 1, 20},
                      Case{"squeezenet1_1", "async", PlanPreset::kPipeline, 1, 50},
                      Case{"squeezenet1_1", "1f1b", PlanPreset::kPipeline, 4, 35}),
    [](const auto& c) {
      std::string name = std::string(c.param.model) + "_" + c.param.schedule;
      if (c.param.preset == PlanPreset::kDataParallel) name += "_dp";
      if (c.param.slow_nodes > 0) name += "_by" + std::to_string(c.param.slow_nodes);
      return name;
    });

}  // namespace
}  // namespace ndtrain
