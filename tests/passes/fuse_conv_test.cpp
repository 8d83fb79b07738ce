#include <gtest/gtest.h>

#include "framework/passes/rewrites.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::count_nodes;
using testing::interpret_named;
using testing::named_inputs;
using testing::random_tensor;

class Fuse : public ::testing::Test {
 protected:
  ValueId conv(ValueId from) {
    const std::string name = "w" + std::to_string(weights_++);
    return g.add1("Conv",
                  {from, g.add_param(name, random_tensor({DType::kF32, {4, 4, 3, 3}}, 1, name))},
                  {{"pads", Ints{1, 1, 1, 1}}});
  }
  ValueId scalar(float v) { return g.add_constant("", Tensor::of<float>(DType::kF32, {}, {v})); }

  // Fuses, checks that every output keeps its bits, and says what is left.
  Graph fused() {
    const Graph r = rewrite(g, kConvolutions).graph;
    const auto given = named_inputs(g, 1);
    EXPECT_EQ(interpret_named(r, given), interpret_named(g, given));
    return r;
  }
  Graph g;
  ValueId x = g.add_input("x", {DType::kF32, {2, 4, 5, 5}});

 private:
  int weights_ = 0;
};

TEST_F(Fuse, ConvolutionAndRelu) {
  const ValueId y = g.add1("Relu", {conv(x)});
  g.rename(y, "y");
  g.mark_output(y);
  const Graph r = fused();
  ASSERT_EQ(r.nodes().size(), 1U);
  EXPECT_EQ(r.nodes()[0].op, "FusedConv");
  EXPECT_EQ(r.value(r.outputs()[0]).name, "y");
}

TEST_F(Fuse, ConvolutionAndClip) {
  g.mark_output(g.add1("Clip", {conv(x), scalar(0), scalar(0.5F)}));
  g.mark_output(g.add1("Clip", {conv(x), scalar(-0.25F)}));
  g.mark_output(g.add1("Clip", {conv(x), kNone, scalar(0.25F)}));
  EXPECT_EQ(count_nodes(fused(), "FusedConv"), 3);
}

TEST_F(Fuse, AClipWhoseBoundsAreComputedStays) {
  const ValueId low = g.add_input("low", {DType::kF32, {}});
  g.mark_output(g.add1("Clip", {conv(x), low}));
  EXPECT_EQ(count_nodes(fused(), "FusedConv"), 0);
}

TEST_F(Fuse, AResidualOnEitherSide) {
  g.mark_output(g.add1("Relu", {g.add1("Add", {conv(x), x})}));
  g.mark_output(g.add1("Add", {x, conv(x)}));
  const Graph r = fused();
  EXPECT_EQ(r.nodes().size(), 2U);
  EXPECT_EQ(count_nodes(r, "FusedConv"), 2);
}

TEST_F(Fuse, TheLaterOfTwoConvolutionsTakesTheSum) {
  const ValueId first = conv(x), second = conv(g.add1("Sigmoid", {x}));
  g.mark_output(g.add1("Relu", {g.add1("Add", {first, second})}));
  const Graph r = fused();
  EXPECT_EQ(count_nodes(r, "FusedConv"), 1);
  EXPECT_EQ(count_nodes(r, "Conv"), 1);
  EXPECT_EQ(count_nodes(r, "Add"), 0);
}

TEST_F(Fuse, AChainMayBeTheResidualOfTheNext) {
  const ValueId a = g.add1("Relu", {conv(x)});
  const ValueId b = g.add1("Relu", {g.add1("Add", {conv(conv(a)), a})});
  g.mark_output(g.add1("Relu", {g.add1("Add", {b, conv(b)})}));
  const Graph r = fused();
  EXPECT_EQ(count_nodes(r, "FusedConv"), 3);
  EXPECT_EQ(r.nodes().size(), 4U);
}

TEST_F(Fuse, AConvolutionReadTwiceStays) {
  const ValueId c = conv(x);
  g.mark_output(g.add1("Add", {g.add1("Relu", {c}), c}));
  const ValueId d = conv(x);
  g.mark_output(g.add1("Add", {d, d}));
  EXPECT_EQ(count_nodes(fused(), "FusedConv"), 0);
}

TEST_F(Fuse, AConvolutionThatIsAnOutputStays) {
  const ValueId c = conv(x);
  g.mark_output(g.add1("Relu", {c}));
  g.mark_output(c);
  const ValueId sum = g.add1("Add", {conv(x), x});
  g.mark_output(sum);
  g.mark_output(g.add1("Relu", {sum}));
  const Graph r = fused();
  EXPECT_EQ(count_nodes(r, "FusedConv"), 1);  // with the sum, but not past it
  EXPECT_EQ(count_nodes(r, "Relu"), 2);
}

TEST_F(Fuse, ABroadcastSumStays) {
  const ValueId bias = g.add_param("bias", random_tensor({DType::kF32, {1, 4, 1, 1}}, 1, "bias"));
  g.mark_output(g.add1("Add", {conv(x), bias}));
  EXPECT_EQ(count_nodes(fused(), "FusedConv"), 0);
}

TEST_F(Fuse, AResidualComputedAfterTheConvolutionStays) {
  const ValueId c = conv(x);
  g.mark_output(g.add1("Add", {c, g.add1("Sigmoid", {x})}));
  EXPECT_EQ(count_nodes(fused(), "FusedConv"), 0);
}

TEST_F(Fuse, ReluOfAnotherValueStays) {
  const ValueId y = g.add1("Mul", {conv(x), g.add1("Relu", {x})});
  g.mark_output(y);
  EXPECT_EQ(count_nodes(fused(), "Relu"), 1);
}

}  // namespace
}  // namespace ndtrain
