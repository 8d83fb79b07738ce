// A training step in which attention is one node, and so is its gradient.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/runtime/device_fusion.h"
#include "framework/runtime/executor.h"
#include "framework/train/head.h"
#include "framework/train/step_graph.h"
#include "models/zoo.h"
#include "tests/graph/random_graph.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

constexpr int64_t kImages = 2, kHeads = 2, kTokens = 17;
constexpr int kLayers = 2;

Model small_transformer() {
  return build_model("vit", {.classes = 3,
                             .img_size = 32,
                             .vit = {.patch = 8, .depth = kLayers, .width = 32, .heads = kHeads}});
}

std::vector<Tensor> outputs_of(const StepGraph& step, const Device& device) {
  const Plan plan(step.graph, device, {.bound_params = step.trainable});
  std::vector<Tensor> given = {testing::random_tensor({DType::kF32, {kImages, 3, 32, 32}}, 1, "x"),
                               Tensor::i64({0, 2}),
                               Tensor::of<float>(DType::kF32, {2}, {0.5F, 0.5F})};
  for (const ValueId v : step.trainable) given.push_back(step.graph.value(v).data);
  return Executor(plan).run(given);
}

int scores_in(const Graph& g) {
  int count = 0;
  for (const Node& n : g.nodes()) {
    for (const ValueId v : n.outputs) {
      count += g.shape(v) == Shape{kImages, kHeads, kTokens, kTokens} ? 1 : 0;
    }
  }
  return count;
}

TEST(AttentionStep, KeepsNoScoresAndHasTheGradientsOfTheNodesApart) {
  const Model m = small_transformer();
  const std::vector<std::string> trainable = trainable_parameters(m, "none");
  const StepGraph apart = make_step_graph(bind(m, kImages), trainable, 0);
  EXPECT_GT(scores_in(apart.graph), 0);
  for (const Device* device : testing::host_devices()) {
    SCOPED_TRACE(device->backend().name());
    const StepGraph fused =
        make_step_graph(bind(m, kImages), trainable, 0, DType::kF32, 1, accepts_of(*device));
    EXPECT_EQ(testing::count_nodes(fused.graph, "FusedAttention"), kLayers);
    EXPECT_EQ(testing::count_nodes(fused.graph, "FusedAttentionGrad"), kLayers);
    EXPECT_EQ(scores_in(fused.graph), 0);
    const std::vector<Tensor> want = outputs_of(apart, *device), got = outputs_of(fused, *device);
    ASSERT_EQ(got.size(), want.size());
    for (size_t k = 0; k < got.size(); ++k) {
      const std::vector<double> a = got[k].to_doubles(), b = want[k].to_doubles();
      double largest = 0.01;
      for (const double x : b) largest = std::max(largest, std::abs(x));
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4 * largest) << k;
    }
  }
}

TEST(AttentionStep, WithoutADeviceItIsAsItWas) {
  const Model m = small_transformer();
  const StepGraph step = make_step_graph(bind(m, 1), trainable_parameters(m, "none"), 0);
  EXPECT_EQ(testing::count_nodes(step.graph, "FusedAttention"), 0);
}

TEST(AttentionStep, AnInferencePlanHasItAsOneNodeOnEveryHostDevice) {
  const Graph g = bind(small_transformer(), kImages);
  for (const Device* device : testing::host_devices()) {
    const Graph fused = fuse_for(*device, optimize_for_inference(g), {}).graph;
    EXPECT_EQ(testing::count_nodes(fused, "FusedAttention"), kLayers) << device->backend().name();
    EXPECT_EQ(testing::count_nodes(fused, "Transpose"), 1) << "of the patches alone";
  }
}

// onednn has it where the processor has products of bf16, and then for inference alone. Without,
// the library is no slower than the cpu plugin, which goes by way of f32.
TEST(AttentionStep, InSixteenBitsWhoHasAKernelOfItsOwnHasItAsOneNode) {
  const Graph g = optimize_for_inference(bind(small_transformer(), kImages));
  const Graph narrow = lower_floats(g, DType::kBF16, g.outputs());
  for (const Device* device : testing::host_devices()) {
    const std::string& name = device->backend().name();
    const bool native = device->numerics().find("bf16") != std::string::npos;
    const int fused = testing::count_nodes(fuse_for(*device, narrow, {}).graph, "FusedAttention");
    EXPECT_EQ(fused, name == "cpu" || native ? kLayers : 0) << name;
    const Graph trained = fuse_trained_attention(narrow, {}, accepts_of(*device));
    EXPECT_EQ(testing::count_nodes(trained, "FusedAttention"), name == "cpu" ? kLayers : 0) << name;
  }
}

}  // namespace
}  // namespace ndtrain
