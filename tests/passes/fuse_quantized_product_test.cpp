#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/rng.h"
#include "framework/passes/passes.h"
#include "framework/passes/rewrites.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::count_nodes;
using testing::interpret_named;
using testing::named_inputs;
using testing::random_tensor;

constexpr DType kU8 = DType::kU8, kI8 = DType::kI8;

// Rows of four numbers, held in bytes, times a matrix of four by five with a scale per column.
class FuseQuantizedProduct : public ::testing::Test {
 protected:
  ValueId constant(DType t, Shape shape, const std::vector<double>& v) {
    return g.add_param("p" + std::to_string(params_++),
                       Tensor::from_doubles({t, std::move(shape)}, v));
  }
  ValueId quantized(ValueId v, double scale, double zero) {
    return g.add1("QuantizeLinear",
                  {v, constant(DType::kF32, {}, {scale}), constant(kU8, {}, {zero})});
  }
  ValueId qdq(ValueId v, double scale, double zero) {
    return g.add1(
        "DequantizeLinear",
        {quantized(v, scale, zero), constant(DType::kF32, {}, {scale}), constant(kU8, {}, {zero})});
  }
  ValueId matrix(Shape shape, int64_t axis) {
    const Rng rng(1, "matrix");
    std::vector<double> v(static_cast<size_t>(shape.count()));
    for (size_t i = 0; i < v.size(); ++i) v[i] = std::floor(254 * rng.uniform(i)) - 127;
    return g.add1("DequantizeLinear",
                  {constant(kI8, std::move(shape), v),
                   constant(DType::kF32, {5}, {0.01, 0.02, 0.005, 0.013, 0.03}),
                   constant(kI8, {5}, {0, 0, 0, 0, 0})},
                  {{"axis", axis}});
  }
  ValueId bias() {
    return g.add_param("b" + std::to_string(params_++),
                       random_tensor({DType::kF32, {5}}, 1, "bias"));
  }
  ValueId product(ValueId rows) { return g.add1("MatMul", {rows, matrix({4, 5}, 1)}); }

  // As a device would have it that takes what `takes` says. Results stay within `step`.
  Graph fused(double step, const Accepts& takes = {}) {
    const Graph plain = optimize_for_inference(g);
    Graph r = fuse_for_device(plain, {}, takes).graph;
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
  ValueId x = g.add_input("x", {DType::kF32, {2, 3, 4}});
  static constexpr double kRounded = 1e-5;  // of sums around 5, scaled in f32

 private:
  int params_ = 0;
};

TEST_F(FuseQuantizedProduct, BiasFunctionAndBytesBehindAreOneNode) {
  const ValueId a = qdq(x, 0.008, 128);
  const ValueId hidden = g.add1("Gelu", {g.add1("Add", {product(a), bias()})});
  g.mark_output(qdq(hidden, 0.02, 9));
  const Graph r = fused(0.02);
  EXPECT_EQ(count_nodes(r, "FusedQLinearMatMul"), 1);
  EXPECT_EQ(r.nodes().size(), 3U);
  EXPECT_EQ(r.nodes()[1].inputs.size(), 9U);
  EXPECT_EQ(r.nodes()[1].attrs.s("steps"), "Gelu x0 approximate=none");
  EXPECT_EQ(r.type(r.nodes()[1].outputs[0]).dtype, kU8);
}

TEST_F(FuseQuantizedProduct, WhatGoesOnInF32LeavesItInF32) {
  const ValueId a = qdq(x, 0.008, 128);
  g.mark_output(g.add1("Add", {product(a), bias()}));
  const ValueId rows = g.add1("Flatten", {a}, {{"axis", int64_t{2}}});
  g.mark_output(
      g.add1("Gemm", {qdq(rows, 0.008, 128), matrix({5, 4}, 0), bias()}, {{"transB", int64_t{1}}}));
  const Graph r = fused(kRounded);
  EXPECT_EQ(count_nodes(r, "FusedQLinearMatMul"), 2);
  EXPECT_EQ(count_nodes(r, "QuantizeLinear"), 1);
  EXPECT_EQ(count_nodes(r, "DequantizeLinear"), 0);
}

TEST_F(FuseQuantizedProduct, ADeviceWithoutItHasAProductOfF32) {
  const ValueId a = qdq(x, 0.008, 128);
  g.mark_output(g.add1("Gelu", {g.add1("Add", {product(a), bias()})}));
  const Graph r = fused(1e-6, [](Needs, const Graph&, const Node&) { return false; });
  EXPECT_EQ(count_nodes(r, "FusedQLinearMatMul"), 0);
  EXPECT_EQ(count_nodes(r, "MatMul"), 1);
  EXPECT_EQ(count_nodes(r, "DequantizeLinear"), 1) << "the matrix is f32 once and for all";
}

TEST_F(FuseQuantizedProduct, WhatTheDeviceRefusesStaysBehindTheProduct) {
  const ValueId a = qdq(x, 0.008, 128);
  g.mark_output(g.add1("Tanh", {g.add1("Add", {product(a), bias()})}));
  const Graph r = fused(kRounded, [](Needs, const Graph&, const Node& n) {
    return n.op == "FusedQLinearMatMul" && n.attrs.s("steps").empty();
  });
  EXPECT_EQ(count_nodes(r, "FusedQLinearMatMul"), 1);
  EXPECT_EQ(count_nodes(r, "Tanh"), 1);
}

TEST_F(FuseQuantizedProduct, OnlyScalesPerColumnAndAddendsPerColumn) {
  const ValueId a = qdq(x, 0.008, 128);
  const ValueId square = g.add1("DequantizeLinear",
                                {constant(kI8, {5, 5}, std::vector<double>(25, 3)),
                                 constant(DType::kF32, {5}, {0.01, 0.02, 0.005, 0.013, 0.03})},
                                {{"axis", int64_t{0}}});  // per row
  const ValueId five = qdq(product(a), 0.1, 128);
  g.mark_output(g.add1("MatMul", {five, square}));
  g.mark_output(g.add1("Add", {product(a), product(a)}));  // a residual is none
  const Graph r = fused(0.1 * 5 * 3 * 0.03 + kRounded);
  EXPECT_EQ(count_nodes(r, "FusedQLinearMatMul"), 3);
  EXPECT_EQ(count_nodes(r, "MatMul"), 1);
  EXPECT_EQ(count_nodes(r, "Add"), 1);
}

}  // namespace
}  // namespace ndtrain
