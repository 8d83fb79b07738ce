// What kernels took, told to nodes.
#include "framework/pipeline/profiler/node_seconds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "framework/core/rng.h"
#include "framework/pipeline/profiler/step_samples.h"
#include "tests/pipeline/profiler/profiled_step.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using testing::node_called;
using testing::step_of;

Executor::NodeTime kernel(const std::string& op, ValueId makes, double seconds,
                          size_t workspace = 0) {
  return {.op = op,
          .name = "",
          .dtype = DType::kF32,
          .operations = 0,
          .seconds = seconds,
          .makes = makes,
          .workspace = workspace};
}

// x -> Relu -> Sigmoid -> Tanh
struct ThreeNodes {
  Graph g;
  ValueId x = g.add_input("x", {DType::kF32, {2, 3}}), a = g.add1("Relu", {x}),
          b = g.add1("Sigmoid", {a}), c = g.add1("Tanh", {b});
  ThreeNodes() { g.mark_output(c); }
};

TEST(NodeSeconds, AFusedKernelIsSharedOutAsItsNodesAreAlone) {
  const ThreeNodes t;
  const std::vector kernels = {kernel("FusedElementwise", t.b, 8, 64), kernel("Tanh", t.c, 5)};
  const NodeSeconds seconds(t.g, kernels, std::vector{3.0, 1.0, 7.0});
  EXPECT_THAT(seconds.of(kernels), ElementsAre(6, 2, 5));
  EXPECT_THAT(seconds.workspaces(), ElementsAre(64, 64, 0));
  // Of nodes that take nothing alone the last one has it all; without any word, all alike.
  EXPECT_THAT(NodeSeconds(t.g, kernels, std::vector{0.0, 0.0, 7.0}).of(kernels),
              ElementsAre(0, 8, 5));
  EXPECT_THAT(NodeSeconds(t.g, kernels).of(kernels), ElementsAre(4, 4, 5));
}

TEST(NodeSeconds, AMovedValueIsWithWhoMakesItOrElseWithWhoReadsItNext) {
  const ThreeNodes t;
  const std::vector kernels = {kernel("Reorder", t.x, 1),  kernel("Relu", t.a, 2),
                               kernel("Reorder", t.a, 4),  kernel("Part", kNone, 8),
                               kernel("Sigmoid", t.b, 16), kernel("Tanh", t.c, 32),
                               kernel("Reorder", t.c, 64)};
  EXPECT_THAT(NodeSeconds(t.g, kernels).of(kernels), ElementsAre(1 + 2 + 4, 8 + 16, 32 + 64));
}

TEST(NodeSeconds, ARunOfAnotherPlanIsRefused) {
  const ThreeNodes t;
  const std::vector kernels = {kernel("Tanh", t.c, 1)};
  EXPECT_THROW(NodeSeconds(t.g, kernels).of({}), Error);
}

// The plans of a real step, with times that are made up.
TEST(NodeSeconds, NodesAddUpToTheirStepAndSoDoTheirPasses) {
  for (const Device* device : testing::host_devices()) {
    const StepGraph step = step_of(build_model("tinynet", {.classes = 3, .img_size = 16}), 4);
    const StepNodes nodes = step_nodes(step);
    std::vector<ValueId> bound = step.trainable;
    for (const TrainingGraph::State& s : step.states) bound.push_back(s.param);
    const Plan fused(step.graph, *device, {.bound_params = bound}),
        apart(step.graph, *device, {.bound_params = bound, .fuse = false});
    EXPECT_GE(apart.kernel_count(), fused.kernel_count());
    Rng rng(3, "seconds");
    std::vector<double> alone(step.graph.nodes().size());
    for (double& s : alone) s = rng.next_uniform();
    for (const Plan* plan : {&fused, &apart}) {
      const Executor executor(*plan);
      std::vector<Executor::NodeTime> run = executor.profile();
      double all = 0;
      for (Executor::NodeTime& k : run) all += k.seconds = rng.next_uniform();
      const std::vector<double> seconds = NodeSeconds(step.graph, run, alone).of(run);
      EXPECT_NEAR(std::accumulate(seconds.begin(), seconds.end(), 0.0), all, 1e-9);
      StepSamples samples(step, nodes);
      samples.add(seconds);
      double parts = 0;
      for (size_t n = 0; n < nodes.nodes.size(); ++n) {
        EXPECT_GT(samples.forward(n).median_s, 0) << nodes.names[n];
        parts += samples.forward(n).mean_s + samples.input_gradient(n).mean_s +
                 samples.weight_gradient(n).mean_s;
      }
      EXPECT_NEAR(parts, all, 1e-9);
    }
  }
}

TEST(StepSamples, GradientsOfValuesAndOfWeightsAreApart) {
  const StepGraph step = step_of(testing::flattening_model(), 2);
  const StepNodes nodes = step_nodes(step);
  StepSamples samples(step, nodes);
  samples.add(std::vector<double>(step.graph.nodes().size(), 1));
  const size_t conv = node_called(nodes, "c"), relu = node_called(nodes, "h"),
               gemm = node_called(nodes, "logits");
  EXPECT_EQ(samples.forward(conv).median_s, 1);
  EXPECT_EQ(samples.input_gradient(conv).median_s, 0);  // nobody waits for that of rows
  EXPECT_GT(samples.weight_gradient(conv).median_s, 0);
  EXPECT_GT(samples.input_gradient(relu).median_s, 0);
  EXPECT_EQ(samples.weight_gradient(relu).median_s, 0);
  EXPECT_GT(samples.input_gradient(gemm).median_s, 0);
  EXPECT_GT(samples.weight_gradient(gemm).median_s, 0);
}

TEST(StepSamples, WhatIsFrozenHasNoBackwardPass) {
  const StepGraph step =
      step_of(build_model("tinynet", {.classes = 3, .img_size = 16}), 4, "layer2");
  const StepNodes nodes = step_nodes(step);
  StepSamples samples(step, nodes);
  samples.add(std::vector<double>(step.graph.nodes().size(), 1));
  const size_t cut = node_called(nodes, "layer2");
  for (size_t n = 0; n <= cut; ++n) {
    EXPECT_EQ(samples.input_gradient(n), NodeTime());
    EXPECT_EQ(samples.weight_gradient(n), NodeTime());
  }
  EXPECT_EQ(samples.input_gradient(cut + 1), NodeTime());
  EXPECT_GT(samples.weight_gradient(cut + 1).median_s, 0);
}

TEST(StepSamples, TimesAreMeanMedianAndDeviation) {
  const NodeTime odd = time_of({5, 1, 3});
  EXPECT_EQ(odd.mean_s, 3);
  EXPECT_EQ(odd.median_s, 3);
  EXPECT_THAT(odd.deviation_s, DoubleEq(std::sqrt(8.0 / 3)));
  const NodeTime even = time_of({10, 1, 2, 3});
  EXPECT_EQ(even.mean_s, 4);
  EXPECT_EQ(even.median_s, 2.5);
  EXPECT_EQ(time_of({}), NodeTime());
}

}  // namespace
}  // namespace ndtrain
