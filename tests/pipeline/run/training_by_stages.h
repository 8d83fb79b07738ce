// Trainings by stages, a rank a thread, of a network whose blocks may be cut inside.
#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "framework/parallel/between_ranks.h"
#include "framework/pipeline/run/pipeline_training.h"
#include "framework/pipeline/run/stage_cuts.h"
#include "framework/train/step_nodes.h"
#include "tests/parallel/training_by_ranks.h"

namespace ndtrain::testing {

inline void add_batch_norm(Model& m, const std::string& name, const std::string& in,
                           int64_t channels) {
  const std::vector<float> ones(static_cast<size_t>(channels), 1.0F);
  for (const char* one : {".scale", ".var"}) {
    m.initialisers[name + one] = Tensor::of(DType::kF32, {channels}, ones);
  }
  for (const char* zero : {".bias", ".mean"}) {
    m.initialisers[name + zero] = Tensor({DType::kF32, {channels}});
  }
  m.nodes.push_back({"BatchNormalization",
                     {in, name + ".scale", name + ".bias", name + ".mean", name + ".var"},
                     {name},
                     {}});
}

// Two residual blocks behind a convolution, and what one block makes once more for the classifier:
// a value that three nodes read, of three stages where it is cut so. Without `statistics` there is
// no batch normalisation.
inline Model skipping_net(bool statistics, double dropout) {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 1, kSide, kSide}}};
  m.outputs = {"logits"};
  const auto conv = [&](const std::string& name, const std::string& in, int64_t from, int64_t to) {
    add_small_weight(m, name + ".w", {to, from, 3, 3});
    m.nodes.push_back({"Conv", {in, name + ".w"}, {name}, {{"pads", Ints{1, 1, 1, 1}}}});
    if (!statistics) return name;
    add_batch_norm(m, name + ".bn", name, to);
    return name + ".bn";
  };
  const auto node = [&](const std::string& op, std::vector<std::string> in, const std::string& out,
                        Attrs attrs = {}) {
    m.nodes.push_back({op, std::move(in), {out}, std::move(attrs)});
    return out;
  };
  const std::string stem = node("Relu", {conv("stem", "x", 1, 6)}, "r0");
  const std::string a = node("Relu", {conv("a1", stem, 6, 6)}, "r1");
  const std::string block = node("Relu", {node("Add", {conv("a2", a, 6, 6), stem}, "s1")}, "r2");
  const std::string b = node("Relu", {conv("b1", block, 6, 6)}, "r3");
  const std::string sum = node("Add", {conv("b2", b, 6, 6), block}, "s2");
  const std::string all = node("Concat", {sum, stem}, "all", {{"axis", int64_t{1}}});
  std::string last = node("Flatten", {node("GlobalAveragePool", {all}, "pool")}, "flat");
  if (dropout > 0) {
    m.initialisers["ratio"] = Tensor::of<float>(DType::kF32, {}, {static_cast<float>(dropout)});
    last = node("Dropout", {last, "ratio"}, "dropped");
  }
  add_small_weight(m, "fc.w", {3, 12});
  m.initialisers["fc.b"] = Tensor({DType::kF32, {3}});
  node("Gemm", {last, "fc.w", "fc.b"}, "logits", {{"transB", int64_t{1}}});
  return m;
}

// A model and what is trained of it: all but what `frozen` is the beginning of.
struct Network {
  Model model;
  std::vector<std::string> trained;
};

inline Network network(Model m, const std::vector<std::string>& frozen = {}) {
  Network network;
  for (const auto& [name, t] : m.initialisers) {
    const auto begins = [&n = name](const std::string& with) { return n.starts_with(with); };
    if (!name.ends_with(".mean") && !name.ends_with(".var") && name != "ratio" &&
        std::ranges::none_of(frozen, begins)) {
      network.trained.push_back(name);
    }
  }
  network.model = std::move(m);
  return network;
}

inline TrainerConfig config_by_parts(int64_t parts, const OptimizerConfig& optimizer = {}) {
  TrainerConfig config = config_of(optimizer, 1);
  config.accumulate = parts;
  return config;
}

// Each stage begins at the node of one of these names, but for the first.
inline std::vector<int> cut_at(const StepGraph& step, const std::set<std::string>& begins) {
  const StepNodes nodes = step_nodes(step);
  std::vector<int> stages, stage_of;
  for (int s = 0; const std::string& name : nodes.names) {
    s += begins.contains(name) ? 1 : 0;
    stages.push_back(s);
  }
  for (const size_t part : nodes.part_of) stage_of.push_back(stages[part]);
  return stage_of;
}

inline std::vector<int> random_cut(const StepGraph& step, int stages, uint64_t seed) {
  const std::vector<std::string> names = step_nodes(step).names;
  Rng rng(seed, "cut");
  std::set<std::string> begins;
  while (std::ssize(begins) < stages - 1)
    begins.insert(names[1 + rng.next_below(names.size() - 1)]);
  return cut_at(step, begins);
}

inline Bytes alone(const Network& n, const TrainerConfig& config, int64_t epochs = kEpochs) {
  Trainer trainer(n.model, n.trained, cpu(), config);
  return train(trainer, epochs);
}

// What each rank does with its training.
using OfRank = std::function<void(PipelineTraining& training)>;

inline void by_stages(int ranks, const Network& n, const TrainerConfig& config,
                      const PipelineTraining::Options& options, const OfRank& f) {
  auto transports = memory_transports(ranks);
  std::vector<std::jthread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&] {
      PipelineTraining training(n.model, n.trained, cpu(), config, talk(std::move(transport)),
                                options);
      f(training);
      barrier(training.communicator());
    });
  }
}

inline std::vector<Bytes> by_stages(int ranks, const Network& n, const TrainerConfig& config,
                                    const PipelineTraining::Options& options) {
  std::vector<Bytes> bytes(static_cast<size_t>(ranks));
  by_stages(ranks, n, config, options, [&](PipelineTraining& training) {
    bytes[static_cast<size_t>(training.communicator().rank())] = train(training);
  });
  return bytes;
}

}  // namespace ndtrain::testing
