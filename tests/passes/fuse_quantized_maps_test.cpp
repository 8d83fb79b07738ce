#include <gtest/gtest.h>

#include "framework/passes/passes.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::count_nodes;
using testing::interpret_named;
using testing::named_inputs;

// Maps [2, 4, 6, 5] and a factor for each, held in bytes.
class FuseQuantizedMaps : public ::testing::Test {
 protected:
  ValueId number(DType t, double v) {
    return g.add_param("n" + std::to_string(numbers_++), Tensor::from_doubles({t, {}}, {&v, 1}));
  }
  ValueId qdq(ValueId v, double scale, double zero = 0) {
    const ValueId q =
        g.add1("QuantizeLinear", {v, number(DType::kF32, scale), number(DType::kU8, zero)});
    return g.add1("DequantizeLinear", {q, number(DType::kF32, scale), number(DType::kU8, zero)});
  }

  ValueId normal(ValueId v, int64_t channels) {
    const auto numbers = [&](double from, double step) {
      std::vector<double> all;
      for (int64_t c = 0; c < channels; ++c) all.push_back(from + step * static_cast<double>(c));
      return g.add_param("p" + std::to_string(numbers_++),
                         Tensor::from_doubles({DType::kF32, {channels}}, all));
    };
    const ValueId scale = numbers(-0.7, 0.31), bias = numbers(0.4, -0.09),
                  mean = numbers(0.1, 0.03), var = numbers(0.3, 0.11);
    return g.add1("BatchNormalization", {v, scale, bias, mean, var});
  }

  // As a device would have it that takes what `takes` says. Results stay within `step`.
  Graph fused(double step, const Accepts& takes = {}) {
    Graph r = fuse_for_device(optimize_for_inference(g), {}, takes).graph;
    const auto given = named_inputs(g, 1);
    const auto got = interpret_named(r, given), want = interpret_named(g, given);
    for (size_t k = 0; k < want.size(); ++k) {
      for (size_t i = 0; i < want[k].size(); ++i) {
        EXPECT_NEAR(got[k][i], want[k][i], 1.001 * step) << "output " << k << ", " << i;
      }
    }
    return r;
  }

  Graph g;
  ValueId x = g.add_input("x", {DType::kF32, {2, 4, 6, 5}});
  ValueId f = g.add_input("f", {DType::kF32, {2, 4, 1, 1}});

 private:
  int numbers_ = 0;
};

TEST_F(FuseQuantizedMaps, AveragesOfPlanesAndWindowsAreOfBytes) {
  const ValueId a = qdq(x, 0.008, 128);
  g.mark_output(qdq(g.add1("GlobalAveragePool", {a}), 0.002, 100));
  const ValueId axes =
      g.add_constant("axes", Tensor::of(DType::kI64, {2}, std::vector<int64_t>{2, 3}));
  g.mark_output(qdq(g.add1("ReduceMean", {a, axes}), 0.002, 100));
  g.mark_output(qdq(g.add1("AveragePool", {a},
                           {{"kernel_shape", Ints{3, 3}},
                            {"pads", Ints{1, 1, 1, 1}},
                            {"count_include_pad", int64_t{1}}}),
                    0.006, 120));
  const Graph r = fused(0.006);
  EXPECT_EQ(count_nodes(r, "FusedQLinearAveragePool"), 3);
  EXPECT_EQ(count_nodes(r, "QuantizeLinear"), 1);
  EXPECT_EQ(count_nodes(r, "DequantizeLinear"), 3) << "of the outputs alone";
}

TEST_F(FuseQuantizedMaps, MapsTimesFactorsAreOfBytes) {
  const ValueId a = qdq(x, 0.008, 128), b = qdq(f, 0.008, 127);
  g.mark_output(qdq(g.add1("Mul", {a, b}), 0.01, 100));
  g.mark_output(qdq(g.add1("Mul", {b, a}), 0.01, 100));
  const Graph r = fused(0.01);
  EXPECT_EQ(count_nodes(r, "FusedQLinearMul"), 2);
  EXPECT_EQ(count_nodes(r, "Mul"), 0);
  for (const Node& n : r.nodes()) {
    if (n.op != "FusedQLinearMul") continue;
    EXPECT_EQ(r.shape(n.inputs[0]), g.shape(x));
  }
}

TEST_F(FuseQuantizedMaps, ADeviceWithoutThemHasThemInF32) {
  const ValueId a = qdq(x, 0.008, 128);
  const ValueId pixel = qdq(g.add1("GlobalAveragePool", {a}), 0.002, 100);
  g.mark_output(qdq(g.add1("Mul", {a, pixel}), 0.002, 100));
  const Graph r = fused(1e-6, [](Needs, const Graph&, const Node&) { return false; });
  EXPECT_EQ(count_nodes(r, "GlobalAveragePool"), 1);
  EXPECT_EQ(count_nodes(r, "Mul"), 1);
}

TEST_F(FuseQuantizedMaps, BatchNormalisationOfJoinedMapsIsOfBytes) {
  const ValueId a = qdq(x, 0.008, 128), b = qdq(g.add1("Neg", {x}), 0.006, 40);
  const ValueId joined = g.add1("Concat", {a, b}, {{"axis", int64_t{-3}}});
  g.mark_output(qdq(g.add1("Relu", {normal(joined, 8)}), 0.01));
  g.mark_output(qdq(normal(a, 4), 0.01, 100));
  const ValueId more = g.add1("Concat", {joined, a}, {{"axis", int64_t{1}}});
  g.mark_output(qdq(normal(more, 12), 0.01, 100));
  const Graph r = fused(0.01);
  EXPECT_EQ(count_nodes(r, "FusedQLinearBatchNorm"), 3);
  EXPECT_EQ(count_nodes(r, "Concat") + count_nodes(r, "Relu"), 0);
  EXPECT_EQ(count_nodes(r, "DequantizeLinear"), 3) << "of the outputs alone";
}

TEST_F(FuseQuantizedMaps, BatchNormalisationStaysWherePartsAreF32OrAReluIsSeen) {
  const ValueId a = qdq(x, 0.008, 128);
  g.mark_output(qdq(g.add1("Relu", {normal(a, 4)}), 0.01, 100));  // 0 is not the lowest byte
  const ValueId halves = g.add1("Concat", {a, x}, {{"axis", int64_t{1}}});
  g.mark_output(qdq(normal(halves, 8), 0.01, 100));
  const ValueId wide = g.add1("Concat", {a, a}, {{"axis", int64_t{3}}});
  g.mark_output(qdq(normal(wide, 4), 0.01, 100));
  const ValueId read = normal(a, 4);
  g.mark_output(qdq(read, 0.01, 100));
  g.mark_output(g.add1("Exp", {read}));
  EXPECT_EQ(count_nodes(fused(0.01), "FusedQLinearBatchNorm"), 0);
}

TEST_F(FuseQuantizedMaps, WhatIsReadInF32OrMadeOfItStays) {
  const ValueId a = qdq(x, 0.008, 128);
  const ValueId pixel = g.add1("GlobalAveragePool", {a});
  g.mark_output(qdq(pixel, 0.002, 100));
  g.mark_output(g.add1("Exp", {pixel}));
  g.mark_output(qdq(g.add1("Mul", {a, f}), 0.01, 100));
  g.mark_output(qdq(
      g.add1("ReduceMean",
             {a, g.add_constant("axis", Tensor::of(DType::kI64, {1}, std::vector<int64_t>{1}))}),
      0.01, 100));
  const Graph r = fused(0.01);
  EXPECT_EQ(count_nodes(r, "FusedQLinearAveragePool") + count_nodes(r, "FusedQLinearMul"), 0);
}

}  // namespace
}  // namespace ndtrain
