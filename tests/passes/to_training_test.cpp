#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "framework/passes/passes.h"
#include "framework/runtime/interpreter.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::count_nodes;
using testing::interpret_named;
using testing::random_tensor;

struct Network {
  Graph g;
  ValueId w{}, scale{}, mean{}, var{};
  Network() {
    const ValueId x = g.add_input("x", {DType::kF32, {3, 2, 2, 2}});
    w = g.add_param("w", Tensor::of<float>(DType::kF32, {2, 2, 1, 1}, {1, 0.5F, -1, 2}));
    scale = g.add_param("scale", Tensor::of<float>(DType::kF32, {2}, {2, 3}));
    const ValueId bias = g.add_param("bias", Tensor::of<float>(DType::kF32, {2}, {1, -1}));
    mean = g.add_param("mean", Tensor::of<float>(DType::kF32, {2}, {0.25F, -0.5F}));
    var = g.add_param("var", Tensor::of<float>(DType::kF32, {2}, {1.5F, 2}));
    const ValueId h = g.add1("Conv", {x, w});
    g.mark_output(g.add1("BatchNormalization", {h, scale, bias, mean, var},
                         {{"momentum", 0.9}, {"epsilon", 1e-3}}));
    g.mark_output(h);
  }
};

TEST(ToTraining, BatchNormalizationUsesTheBatch) {
  const Network n;
  const TrainingGraph t = to_training(n.g, std::vector{n.w});
  ASSERT_EQ(t.states.size(), 2U);
  ASSERT_EQ(t.graph.outputs().size(), 4U);
  EXPECT_EQ(t.dropout_seed, kNone);
  EXPECT_EQ(t.graph.value(t.states[0].param).name, "mean");
  EXPECT_EQ(t.graph.value(t.states[1].param).name, "var");
  const auto out = interpret_named(t.graph, testing::named_inputs(t.graph, 1));
  const std::vector<double>& h = out[1];
  const double scale[] = {2, 3}, bias[] = {1, -1}, running_mean[] = {0.25, -0.5},
               running_var[] = {1.5, 2};
  const auto value = [&](size_t row, size_t c, size_t i) { return h[(row * 2 + c) * 4 + i]; };
  for (size_t c = 0; c < 2; ++c) {
    double mean = 0, square = 0;
    for (size_t i = 0; i < 12; ++i) mean += value(i / 4, c, i % 4) / 12;
    for (size_t i = 0; i < 12; ++i) square += std::pow(value(i / 4, c, i % 4) - mean, 2);
    for (size_t i = 0; i < 12; ++i) {
      const double want =
          (value(i / 4, c, i % 4) - mean) / std::sqrt(square / 12 + 1e-3) * scale[c] + bias[c];
      EXPECT_NEAR(out[0][(i / 4 * 2 + c) * 4 + i % 4], want, 1e-9);
    }
    EXPECT_NEAR(out[2][c], 0.9 * running_mean[c] + 0.1 * mean, 1e-7);
    // PyTorch's running variance takes the unbiased estimate: 11, not 12.
    EXPECT_NEAR(out[3][c], 0.9 * running_var[c] + 0.1 * square / 11, 1e-6);
  }
}

TEST(ToTraining, FrozenNodesStayAsTheyAre) {
  Network n;
  const ValueId ratio = n.g.add_constant("", Tensor::of<float>(DType::kF32, {}, {0.5F}));
  const ValueId frozen = n.g.add1("Dropout", {n.g.outputs()[0], ratio});
  const ValueId head = n.g.add_param("head", random_tensor({DType::kF32, {2, 2}}, 1, "head"));
  n.g.set_outputs({n.g.add1("MatMul", {frozen, head})});
  const TrainingGraph t = to_training(n.g, std::vector{head});
  EXPECT_TRUE(t.states.empty());
  EXPECT_EQ(t.dropout_seed, kNone);
  EXPECT_EQ(count_nodes(t.graph, "DropoutMask"), 0);
  const auto given = testing::named_inputs(n.g, 1);
  EXPECT_EQ(interpret_named(t.graph, given), interpret_named(n.g, given));
}

struct WithDropout {
  TrainingGraph t;
  static constexpr int64_t kRows = 500, kWidth = 8;
  explicit WithDropout(float ratio, int layers = 1) {
    Graph g;
    ValueId v = g.add_input("x", {DType::kF32, {kRows, kWidth}});
    const ValueId w = g.add_param("w", Tensor::of<float>(DType::kF32, {1}, {1}));
    v = g.add1("Mul", {v, w});
    for (int i = 0; i < layers; ++i) {
      const ValueId r = g.add_constant("", Tensor::of<float>(DType::kF32, {}, {ratio}));
      v = g.add1("Dropout", {v, r});
      g.mark_output(v);
    }
    t = to_training(g, std::vector{w});
  }
  std::vector<std::vector<double>> run(double seed, double step) const {
    const std::vector<double> ones(kRows * kWidth, 1.0);
    return interpret_named(t.graph, {{"x", ones}, {"dropout_seed", {seed, step}}});
  }
};

TEST(ToTraining, TheDropoutMaskFollowsSeedAndStepAlone) {
  const WithDropout d(0.3F);
  ASSERT_NE(d.t.dropout_seed, kNone);
  EXPECT_EQ(d.t.graph.type(d.t.dropout_seed), (TensorType{DType::kI64, {2}}));
  EXPECT_EQ(d.run(7, 4), d.run(7, 4));
  std::set<std::vector<double>> masks;
  for (double seed : {0.0, 1.0, 7.0}) {
    for (double step : {0.0, 1.0, 2.0, 1000.0}) masks.insert(d.run(seed, step)[0]);
  }
  EXPECT_EQ(masks.size(), 12U);
}

TEST(ToTraining, DropoutKeepsTheExpectation) {
  for (float ratio : {0.1F, 0.5F, 0.9F}) {
    const std::vector<double> y = WithDropout(ratio).run(3, 1)[0];
    double sum = 0;
    for (double v : y) {
      EXPECT_TRUE(v == 0 || std::abs(v - 1 / (1 - static_cast<double>(ratio))) < 1e-6) << v;
      sum += v;
    }
    // Five deviations of the mean of 4000 draws.
    const double deviation = std::sqrt(ratio / (1 - ratio) / 4000.0);
    EXPECT_NEAR(sum / static_cast<double>(y.size()), 1, 5 * deviation) << "ratio " << ratio;
  }
}

TEST(ToTraining, EveryDropoutHasItsOwnMask) {
  const auto out = WithDropout(0.5F, 2).run(3, 1);
  size_t kept_by_first = 0, kept_by_both = 0;
  for (size_t i = 0; i < out[0].size(); ++i) {
    kept_by_first += out[0][i] != 0;
    kept_by_both += out[1][i] != 0;
  }
  EXPECT_GT(kept_by_both, kept_by_first / 3);
  EXPECT_LT(kept_by_both, kept_by_first * 2 / 3);
}

TEST(ToTraining, ARatioOfZeroDrawsNothing) {
  EXPECT_EQ(count_nodes(WithDropout(0).t.graph, "DropoutMask"), 0);
}

}  // namespace
}  // namespace ndtrain
