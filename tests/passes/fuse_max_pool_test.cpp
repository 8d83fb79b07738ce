#include <gtest/gtest.h>

#include "framework/passes/rewrites.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::count_nodes;
using testing::interpret_named;
using testing::largest_difference;
using testing::named_inputs;
using testing::random_tensor;

class FuseMaxPool : public ::testing::Test {
 protected:
  ValueId conv(ValueId from, int64_t out = 4, const char* op = "FusedConv") {
    const std::string name = "w" + std::to_string(weights_++);
    const Shape w{out, g.shape(from)[1], 3, 3};
    return g.add1(op,
                  {from, g.add_param(name, random_tensor({DType::kF32, w}, 1, name)),
                   g.add_param(name + "b", random_tensor({DType::kF32, {out}}, 1, name))},
                  {{"pads", Ints{1, 1, 1, 1}}});
  }
  ValueId pool(ValueId from, const Attrs& more = {}) {
    Attrs a{{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}};
    for (const auto& [name, value] : more) a.set(name, value);
    return g.add1("MaxPool", {from}, a);
  }

  // Fuses for a device that takes what `takes` says, and checks that the numbers stay.
  int fused(const Accepts& takes, std::span<const ValueId> varying = {}) {
    const Rewritten r = rewrite(g, kPooledConvolutions, varying, takes);
    const auto given = named_inputs(g, 1);
    EXPECT_EQ(largest_difference(interpret_named(r.graph, given), interpret_named(g, given)), 0);
    for (size_t k = 0; k < g.outputs().size(); ++k) {
      EXPECT_EQ(r.now[index(g.outputs()[k])], r.graph.outputs()[k]);
      EXPECT_EQ(r.graph.value(r.graph.outputs()[k]).name, g.value(g.outputs()[k]).name);
    }
    const int left = count_nodes(g, "MaxPool") - count_nodes(r.graph, "MaxPool");
    return left == 0 ? 0 : count_nodes(r.graph, "FusedConv");
  }
  int fused(bool takes = true) {
    return fused([=](Needs, const Graph&, const Node&) { return takes; });
  }

  Graph g;
  ValueId x = g.add_input("x", {DType::kF32, {2, 3, 9, 8}});

 private:
  int weights_ = 0;
};

TEST_F(FuseMaxPool, AConvolutionThatIsPooledAndNothingElse) {
  g.mark_output(pool(conv(x)));
  g.mark_output(pool(conv(x, 5, "Conv"), {{"pads", Ints{1, 1, 1, 1}}}));
  EXPECT_EQ(fused(), 2);
  EXPECT_EQ(fused(false), 0);
}

TEST_F(FuseMaxPool, WindowsOverTheEdgeGoAlongAsPadding) {
  g.mark_output(pool(conv(x), {{"ceil_mode", int64_t{1}}}));
  g.mark_output(pool(conv(x), {{"auto_pad", "SAME_UPPER"}}));
  EXPECT_EQ(fused(), 2);
}

TEST_F(FuseMaxPool, JoinedConvolutionsArePooledBeforeTheyAreJoined) {
  const ValueId both = g.add1("Concat", {conv(x), conv(x, 7)}, {{"axis", int64_t{1}}});
  g.mark_output(pool(both));
  EXPECT_EQ(fused(), 2);
  int offers = 0;
  EXPECT_EQ(fused([&](Needs, const Graph&, const Node&) { return ++offers == 1; }), 0)
      << "the second was refused, so neither is pooled alone";
}

TEST_F(FuseMaxPool, WhatIsReadElsewhereStays) {
  const ValueId y = conv(x);
  g.mark_output(pool(y));
  g.mark_output(g.add1("Relu", {y}));
  EXPECT_EQ(fused(), 0);
}

TEST_F(FuseMaxPool, OtherConvolutionsAndPoolsStay) {
  g.mark_output(pool(g.add1("Relu", {x})));
  g.mark_output(pool(conv(x), {{"dilations", Ints{2, 2}}}));
  const ValueId along_rows = g.add1("Concat", {conv(x), conv(x)}, {{"axis", int64_t{2}}});
  g.mark_output(pool(along_rows));
  const ValueId w = g.add_param("residual w", random_tensor({DType::kF32, {3, 3, 1, 1}}, 1, "r"));
  g.mark_output(pool(g.add1("FusedConv", {x, w, kNone, x})));
  EXPECT_EQ(fused(), 0);
}

TEST_F(FuseMaxPool, WeightsThatMayChangeStay) {
  g.mark_output(pool(conv(x)));
  EXPECT_EQ(fused([](Needs, const Graph&, const Node&) { return true; }, std::vector{g.find("w0")}),
            0);
}

}  // namespace
}  // namespace ndtrain
