#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/rng.h"
#include "framework/passes/passes.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::count_nodes;
using testing::interpret_named;
using testing::largest_difference;
using testing::named_inputs;
using testing::random_tensor;

class FuseQuantized : public ::testing::Test {
 protected:
  ValueId scale(double v) {
    return g.add_param("s", Tensor::from_doubles({DType::kF32, {}}, {&v, 1}));
  }
  ValueId zero(DType t, double v = 0) {
    return g.add_constant("z", Tensor::from_doubles({t, {}}, {&v, 1}));
  }
  ValueId quantized(ValueId v, double s, DType t = DType::kU8) {
    return g.add1("QuantizeLinear", {v, scale(s), zero(t)});
  }
  // Through bytes and back.
  ValueId qdq(ValueId v, double s, DType t = DType::kU8) {
    const ValueId q = quantized(v, s, t);
    return g.add1("DequantizeLinear", {q, scale(s), zero(t)});
  }
  ValueId bytes(Shape shape, int64_t span, DType t) {
    const Rng rng(1, "bytes");
    std::vector<double> v(static_cast<size_t>(shape.count()));
    for (size_t i = 0; i < v.size(); ++i)
      v[i] = std::floor((2 * rng.uniform(i) - 1) * static_cast<double>(span));
    return g.add_constant("b", Tensor::from_doubles({t, shape}, v));
  }
  // A convolution of 4 channels with weights and a bias per channel.
  ValueId conv(ValueId from, double x_scale, int64_t group = 1) {
    const std::vector<double> s = {0.011, 0.017, 0.005, 0.013};
    std::vector<double> b = s;
    for (double& v : b) v = static_cast<float>(v) * static_cast<float>(x_scale);
    const TensorType four{DType::kF32, {4}};
    const ValueId w = g.add1("DequantizeLinear",
                             {bytes({4, 4 / group, 3, 3}, 127, DType::kI8),
                              g.add_param("ws", Tensor::from_doubles(four, s))},
                             {{"axis", int64_t{0}}});
    const ValueId bias =
        g.add1("DequantizeLinear",
               {bytes({4}, 2000, DType::kI32), g.add_param("bs", Tensor::from_doubles(four, b))},
               {{"axis", int64_t{0}}});
    return g.add1("Conv", {from, w, bias}, {{"pads", Ints{1, 1, 1, 1}}, {"group", group}});
  }
  // Fuses; every output stays within one step of its scale.
  Graph fused(double step) {
    const Graph r = optimize_for_inference(g);
    const auto given = named_inputs(g, 1);
    const auto got = interpret_named(r, {{"x", given.at("x")}}),
               want = interpret_named(g, {{"x", given.at("x")}});
    for (size_t k = 0; k < want.size(); ++k) {
      for (size_t i = 0; i < want[k].size(); ++i) {
        EXPECT_NEAR(got[k][i], want[k][i], 1.001 * step) << "output " << k << ", " << i;
      }
    }
    return r;
  }
  Graph g;
  ValueId x = g.add_input("x", {DType::kF32, {2, 4, 6, 6}});
};

TEST_F(FuseQuantized, ConvolutionResidualAndActivation) {
  const ValueId a = qdq(x, 0.008, DType::kI8);
  const ValueId b = qdq(g.add1("Relu", {conv(a, 0.008)}), 0.05);
  const ValueId c = qdq(g.add1("Relu", {g.add1("Add", {conv(b, 0.05), b})}), 0.3);
  g.mark_output(c);
  const Graph r = fused(0.3);
  EXPECT_EQ(count_nodes(r, "FusedQLinearConv"), 2);
  EXPECT_EQ(count_nodes(r, "QuantizeLinear"), 1);
  EXPECT_EQ(count_nodes(r, "DequantizeLinear"), 1);
  EXPECT_EQ(r.nodes().size(), 4U);
  EXPECT_EQ(r.nodes()[2].inputs.size(), 12U);
  EXPECT_EQ(r.nodes()[2].attrs.s("steps"), "Relu x0");
}

// As with the instructions of no processor for products of bytes.
TEST_F(FuseQuantized, ConvolutionsAreNumbersWhereADeviceTakesNoneOfBytes) {
  const ValueId a = qdq(x, 0.008, DType::kI8);
  const ValueId b = qdq(g.add1("Relu", {conv(a, 0.008)}), 0.05);
  const ValueId c = qdq(g.add1("Relu", {g.add1("Add", {conv(b, 0.05), b})}), 0.3);
  g.mark_output(qdq(conv(c, 0.3, 2), 0.3, DType::kI8));
  const Graph bytes = fused(0.3);
  ASSERT_EQ(count_nodes(bytes, "FusedQLinearConv"), 3);
  int refused = 0;
  const auto without = [&](int taken) {
    refused = 0;
    return fuse_for_device(bytes, {},
                           [&](Needs, const Graph&, const Node& n) {
                             return n.op != "FusedQLinearConv" || refused++ < taken;
                           })
        .graph;
  };
  const Graph numbers = without(0);
  EXPECT_EQ(count_nodes(numbers, "FusedQLinearConv"), 0);
  EXPECT_EQ(count_nodes(numbers, "FusedConv"), 3);
  EXPECT_EQ(count_nodes(numbers, "DequantizeLinear"), 5) << "weights are constants";
  const auto given = named_inputs(g, 1);
  const auto got = interpret_named(numbers, {{"x", given.at("x")}}),
             want = interpret_named(bytes, {{"x", given.at("x")}});
  EXPECT_LE(largest_difference(got, want), 0.3001);
  EXPECT_EQ(count_nodes(without(1), "FusedQLinearConv"), 3) << "it takes some";
}

TEST_F(FuseQuantized, WhatMovesOrChoosesWorksOnBytes) {
  const ValueId a = qdq(x, 0.008, DType::kI8);
  const ValueId b = qdq(conv(a, 0.008), 0.05, DType::kI8);
  const ValueId c = qdq(conv(a, 0.008, 2), 0.05, DType::kI8);
  const ValueId joined = qdq(g.add1("Concat", {b, c}, {{"axis", int64_t{1}}}), 0.05, DType::kI8);
  const ValueId pooled =
      qdq(g.add1("MaxPool", {joined}, {{"kernel_shape", Ints{2, 2}}}), 0.05, DType::kI8);
  g.mark_output(qdq(g.add1("Flatten", {pooled}), 0.05, DType::kI8));
  const Graph r = fused(0.05);
  EXPECT_EQ(count_nodes(r, "FusedQLinearConv"), 2);
  EXPECT_EQ(count_nodes(r, "DequantizeLinear"), 1);
  for (const Node& n : r.nodes()) {
    if (n.op == "Concat" || n.op == "MaxPool" || n.op == "Flatten") {
      EXPECT_EQ(r.type(n.outputs[0]).dtype, DType::kI8) << n.op;
    }
  }
}

TEST_F(FuseQuantized, BetweenUnequalScalesItStaysF32) {
  const ValueId a = qdq(x, 0.008, DType::kI8);
  const ValueId b = qdq(conv(a, 0.008), 0.05, DType::kI8),
                c = qdq(conv(a, 0.008), 0.04, DType::kI8);
  g.mark_output(qdq(g.add1("Concat", {b, c}, {{"axis", int64_t{1}}}), 0.05, DType::kI8));
  const Graph r = fused(0.05);
  EXPECT_EQ(count_nodes(r, "FusedQLinearConv"), 2);
  EXPECT_EQ(count_nodes(r, "DequantizeLinear"), 3);
}

TEST_F(FuseQuantized, AnUnquantisedBiasIsQuantised) {
  const ValueId a = qdq(x, 0.008, DType::kI8);
  const ValueId w = g.add1("DequantizeLinear", {bytes({4, 4, 1, 1}, 127, DType::kI8), scale(0.01)});
  const ValueId b = g.add_param("bias", random_tensor({DType::kF32, {4}}, 1, "bias"));
  g.mark_output(qdq(g.add1("Conv", {a, w, b}), 0.05, DType::kI8));
  EXPECT_EQ(count_nodes(fused(0.05), "FusedQLinearConv"), 1);
}

TEST_F(FuseQuantized, AConvolutionReadInF32TooStays) {
  const ValueId a = qdq(x, 0.008, DType::kI8);
  const ValueId c = conv(a, 0.008);
  g.mark_output(qdq(c, 0.05, DType::kI8));
  g.mark_output(g.add1("Sigmoid", {c}));
  const Graph r = fused(0.05);
  EXPECT_EQ(count_nodes(r, "FusedQLinearConv"), 0);
  EXPECT_EQ(count_nodes(r, "Conv"), 1);
  EXPECT_EQ(count_nodes(r, "DequantizeLinear"), 2);  // weights and bias are folded
}

TEST_F(FuseQuantized, WeightsOfOtherAxesStay) {
  const ValueId a = qdq(x, 0.008, DType::kI8);
  const std::vector<double> s = {0.011, 0.017, 0.005, 0.013};
  const ValueId w =
      g.add1("DequantizeLinear", {bytes({4, 4, 1, 1}, 127, DType::kI8),
                                  g.add_param("ws", Tensor::from_doubles({DType::kF32, {4}}, s))});
  g.mark_output(qdq(g.add1("Conv", {a, w}), 0.05, DType::kI8));
  EXPECT_EQ(count_nodes(fused(0.05), "FusedQLinearConv"), 0);
}

}  // namespace
}  // namespace ndtrain
