#include <gtest/gtest.h>

#include <algorithm>

#include "framework/passes/rewrites.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::count_nodes;
using testing::interpret_named;
using testing::largest_difference;
using testing::named_inputs;
using testing::random_tensor;

class FuseConvElementwise : public ::testing::Test {
 protected:
  ValueId conv(const char* op = "Conv", const Attrs& attrs = {}) {
    const std::string name = "w" + std::to_string(g.nodes().size());
    const ValueId w = g.add_param(name, random_tensor({DType::kF32, {5, 4, 1, 1}}, 1, name));
    return g.add1(op, {x, w}, attrs);
  }
  ValueId swish(ValueId v) { return g.add1("Mul", {g.add1("Sigmoid", {v}), v}); }

  // For a device that takes what `takes` says; the numbers stay.
  Graph fused(const Accepts& takes, std::span<const ValueId> keep = {}) {
    Rewritten r = rewrite(g, kConvFunctions, keep, takes);
    const auto given = named_inputs(g, 1);
    EXPECT_LE(largest_difference(interpret_named(r.graph, given), interpret_named(g, given)), 1e-6);
    for (size_t k = 0; k < g.outputs().size(); ++k) {
      EXPECT_EQ(r.now[index(g.outputs()[k])], r.graph.outputs()[k]);
    }
    return std::move(r.graph);
  }
  Graph all_fused() {
    return fused([](Needs, const Graph&, const Node&) { return true; });
  }
  int64_t left() { return optional(all_fused()); }
  // Those with a function that not every backend has.
  static int64_t optional(const Graph& r) {
    return std::ranges::count_if(r.nodes(), [](const Node& n) {
      return n.op == "FusedConv" && is_optional_fusion(find_op(n.op), n.attrs);
    });
  }

  Graph g;
  ValueId x = g.add_input("x", {DType::kF32, {2, 4, 3, 5}});
};

TEST_F(FuseConvElementwise, FunctionsThatFusedConvDoesNotHave) {
  g.mark_output(swish(conv()));
  g.mark_output(g.add1("HardSwish", {conv("FusedConv")}));
  g.mark_output(g.add1("LeakyRelu", {conv()}, {{"alpha", 0.2}}));
  g.mark_output(g.add1("Gelu", {conv()}));
  const Graph r = all_fused();
  ASSERT_EQ(r.nodes().size(), 4U);
  EXPECT_EQ(optional(r), 4);
  EXPECT_EQ(r.nodes()[0].attrs.s("steps"), "Sigmoid x0; Mul x0 y0");
  EXPECT_EQ(r.nodes()[1].attrs.s("steps"), "HardSwish x0");
}

TEST_F(FuseConvElementwise, NotWhatIsReadElsewhereToo) {
  const ValueId a = conv(), b = conv();
  g.mark_output(swish(a));
  g.mark_output(a);
  const ValueId gate = g.add1("Sigmoid", {b});
  g.mark_output(g.add1("Mul", {b, gate}));
  g.mark_output(gate);
  EXPECT_EQ(left(), 0);
}

TEST_F(FuseConvElementwise, NotTheProductWithAnothersSigmoid) {
  const ValueId a = conv(), b = conv();
  g.mark_output(g.add1("Mul", {a, g.add1("Relu", {a})}));
  g.mark_output(g.add1("Mul", {b, g.add1("Sigmoid", {conv("FusedConv", {{"steps", "Relu x0"}})})}));
  EXPECT_EQ(left(), 0);
}

TEST_F(FuseConvElementwise, WhatADeviceRefusesStays) {
  g.mark_output(swish(conv()));
  g.mark_output(g.add1("Tanh", {conv()}));
  const Graph r =
      fused([](Needs, const Graph&, const Node& n) { return n.attrs.s("steps") == "Tanh x0"; });
  EXPECT_EQ(optional(r), 1);
  EXPECT_EQ(count_nodes(r, "Sigmoid"), 1);
}

}  // namespace
}  // namespace ndtrain
