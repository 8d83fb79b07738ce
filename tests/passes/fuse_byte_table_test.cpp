#include <gtest/gtest.h>

#include "framework/passes/passes.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::count_nodes;
using testing::interpret_named;
using testing::named_inputs;

class FuseByteTable : public ::testing::Test {
 protected:
  ValueId scale(double v) {
    return g.add_param("s" + std::to_string(v), Tensor::from_doubles({DType::kF32, {}}, {&v, 1}));
  }
  ValueId zero(DType t, double v) {
    return g.add_constant("z", Tensor::from_doubles({t, {}}, {&v, 1}));
  }
  ValueId bytes(ValueId v, double s, DType t, double z) {
    return g.add1("QuantizeLinear", {v, scale(s), zero(t, z)});
  }
  ValueId real(ValueId v, double s, DType t, double z) {
    return g.add1("DequantizeLinear", {v, scale(s), zero(t, z)});
  }
  // To the bit what the graph as it was written gives.
  Graph fused(const Accepts& takes = {}) {
    const Graph r = fuse_for_device(optimize_for_inference(g), {}, takes).graph;
    const auto given = named_inputs(g, 1);
    EXPECT_EQ(interpret_named(r, given), interpret_named(g, given));
    return r;
  }

  Graph g;
  ValueId x = g.add_input("x", {DType::kF32, {2, 3, 5, 7}});
};

TEST_F(FuseByteTable, FunctionsOfOneNumberAndSwishAreTables) {
  const ValueId v = real(bytes(x, 0.01, DType::kI8, 3), 0.01, DType::kI8, 3);
  const ValueId a = bytes(g.add1("HardSwish", {v}), 0.005, DType::kU8, 20);
  const ValueId swish = g.add1("Mul", {v, g.add1("Sigmoid", {v})});
  const ValueId b = bytes(swish, 0.006, DType::kI8, -7);
  g.mark_output(a);
  g.mark_output(real(b, 0.006, DType::kI8, -7));
  const Graph r = fused();
  EXPECT_EQ(count_nodes(r, "ByteTable"), 2);
  EXPECT_EQ(count_nodes(r, "HardSwish") + count_nodes(r, "Sigmoid"), 0);
  EXPECT_EQ(count_nodes(r, "DequantizeLinear"), 1);
}

TEST_F(FuseByteTable, WhatIsReadInF32TooStays) {
  const ValueId v = real(bytes(x, 0.01, DType::kU8, 100), 0.01, DType::kU8, 100);
  const ValueId f = g.add1("Tanh", {v});
  g.mark_output(f);
  g.mark_output(bytes(f, 0.01, DType::kI8, 0));
  EXPECT_EQ(count_nodes(fused(), "ByteTable"), 0);
}

TEST_F(FuseByteTable, ADeviceMayRefuse) {
  const ValueId v = real(bytes(x, 0.01, DType::kU8, 100), 0.01, DType::kU8, 100);
  g.mark_output(bytes(g.add1("Tanh", {v}), 0.01, DType::kI8, 0));
  const Graph r = fused([](Needs, const Graph&, const Node&) { return false; });
  EXPECT_EQ(count_nodes(r, "ByteTable"), 0);
  EXPECT_EQ(count_nodes(r, "Tanh"), 1);
}

}  // namespace
}  // namespace ndtrain
