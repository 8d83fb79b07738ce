#include <gmock/gmock.h>

#include "framework/graph/elementwise_steps.h"
#include "framework/passes/rewrites.h"
#include "tests/graph/model_builder.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::count_nodes;
using testing::error_of;
using ::testing::HasSubstr;
using testing::interpret_named;
using testing::largest_difference;
using testing::named_inputs;
using testing::random_tensor;

class FuseElementwise : public ::testing::Test {
 protected:
  ValueId number(double v, const Shape& s = {}) {
    return g.add_constant("", Tensor::of<float>(DType::kF32, s, {static_cast<float>(v)}));
  }
  ValueId param(const Shape& s) {
    const std::string name = "p" + std::to_string(params_++);
    return g.add_param(name, random_tensor({DType::kF32, s}, 1, name));
  }
  ValueId op(const char* name, std::vector<ValueId> in, const Attrs& attrs = {}) {
    return g.add1(name, std::move(in), attrs);
  }

  // Fuses for a device that takes what `takes` says, and checks that the numbers stay.
  Graph fused(const Accepts& takes, std::span<const ValueId> keep = {}) {
    Rewritten r = rewrite(g, kElementwise, keep, takes);
    const auto given = named_inputs(g, 1);
    EXPECT_LE(largest_difference(interpret_named(r.graph, given), interpret_named(g, given)),
              1e-15);
    for (size_t k = 0; k < g.outputs().size(); ++k) {
      EXPECT_EQ(r.now[index(g.outputs()[k])], r.graph.outputs()[k]);
      EXPECT_EQ(r.graph.value(r.graph.outputs()[k]).name, g.value(g.outputs()[k]).name);
    }
    return std::move(r.graph);
  }
  Graph all_fused(std::span<const ValueId> keep = {}) {
    return fused([](Needs, const Graph&, const Node&) { return true; }, keep);
  }
  // The steps of the one node that is left.
  std::string steps() {
    const Graph r = all_fused();
    EXPECT_EQ(r.nodes().size(), 1U);
    EXPECT_EQ(r.nodes()[0].op, "FusedElementwise");
    return r.nodes()[0].attrs.s("steps");
  }

  Graph g;
  ValueId x = g.add_input("x", {DType::kF32, {2, 3, 4, 5}});

 private:
  int params_ = 0;
};

TEST_F(FuseElementwise, AnActivationThatIsWrittenInTwoOps) {
  g.mark_output(op("Mul", {x, op("Sigmoid", {x})}));
  EXPECT_EQ(steps(), "Sigmoid x0; Mul x0 y0");
}

TEST_F(FuseElementwise, NumbersAndAttributesArePartOfTheSteps) {
  const ValueId clip = op("Clip", {op("Add", {x, number(3)}), number(0), number(6)});
  const ValueId hard_swish = op("Div", {op("Mul", {x, clip}), number(6, {1, 1, 1, 1})});
  g.mark_output(op("LeakyRelu", {hard_swish}, {{"alpha", 0.25}}));
  EXPECT_EQ(steps(), "Add x0 3; Clip y0 0 6; Mul x0 y1; Div y2 6; LeakyRelu y3 alpha=0.25");
}

TEST_F(FuseElementwise, ALimitThatIsNotThereIsInfinite) {
  g.mark_output(op("Neg", {op("Clip", {op("Clip", {x, number(-0.5)}), kNone, number(0.5)})}));
  EXPECT_EQ(steps(), "Clip x0 -0.5 inf; Clip y0 -inf 0.5; Neg y1");
}

TEST_F(FuseElementwise, OtherTensorsAreInputs) {
  const ValueId scale = param({3, 1, 1}), shift = param({3, 1, 1});
  g.mark_output(op("Add", {op("Mul", {x, scale}), shift}));
  EXPECT_EQ(steps(), "Mul x0 x1; Add y0 x2");
}

TEST_F(FuseElementwise, AValueThatIsReadTwiceWithinIsComputedOnce) {
  const ValueId shifted = op("Add", {x, param({3, 1, 1})});
  g.mark_output(op("Mul", {shifted, op("Sigmoid", {shifted})}));
  EXPECT_EQ(steps(), "Add x0 x1; Sigmoid y0; Mul y0 y1");
}

TEST_F(FuseElementwise, WhatIsReadElsewhereIsAnEnd) {
  const ValueId middle = op("Tanh", {op("Neg", {x})});
  g.mark_output(middle);
  g.mark_output(op("Relu", {op("Abs", {middle})}));
  const Graph r = all_fused();
  ASSERT_EQ(count_nodes(r, "FusedElementwise"), 2);
  EXPECT_EQ(r.nodes()[0].attrs.s("steps"), "Neg x0; Tanh y0");
}

TEST_F(FuseElementwise, WhatIsSmallerThanTheResultIsComputedBefore) {
  const ValueId gate = op("Sigmoid", {op("Neg", {param({2, 3, 1, 1})})});
  g.mark_output(op("Relu", {op("Mul", {x, gate})}));
  EXPECT_EQ(count_nodes(all_fused(), "FusedElementwise"), 2);
}

TEST_F(FuseElementwise, SingleOpsAndOpsInBetweenStay) {
  const ValueId flat = g.add1("Flatten", {op("Relu", {x})});
  g.mark_output(op("Sigmoid", {g.add1("Softmax", {flat})}));
  EXPECT_EQ(count_nodes(all_fused(), "FusedElementwise"), 0);
}

TEST_F(FuseElementwise, ARefusedGroupStaysAsItWas) {
  g.mark_output(op("Mul", {x, op("Sigmoid", {x})}));
  EXPECT_EQ(fused([](Needs, const Graph&, const Node&) { return false; }).nodes().size(), 2U);
}

TEST_F(FuseElementwise, LongRowsAreCutAtTheMostSteps) {
  ValueId y = x;
  for (size_t i = 0; i < kMostElementwiseSteps + 5; ++i) y = op("Neg", {y});
  g.mark_output(y);
  EXPECT_EQ(count_nodes(all_fused(), "FusedElementwise"), 2);
}

TEST_F(FuseElementwise, ManyOperandsAreCutAtTheMostInputs) {
  ValueId y = x;
  for (size_t i = 0; i < kMostElementwiseInputs + 1; ++i) y = op("Add", {y, param({2, 3, 4, 5})});
  g.mark_output(y);
  const Graph r = all_fused();
  EXPECT_EQ(count_nodes(r, "FusedElementwise"), 2);
  EXPECT_EQ(count_nodes(r, "Add"), 0);
}

TEST_F(FuseElementwise, ANumberThatMayChangeIsAnInput) {
  const ValueId slope = g.add_param("slope", Tensor::of<float>(DType::kF32, {}, {2.0F}));
  g.mark_output(op("Neg", {op("Mul", {x, slope})}));
  const Graph r = all_fused(std::vector{slope});
  ASSERT_EQ(r.nodes().size(), 1U);
  EXPECT_EQ(r.nodes()[0].attrs.s("steps"), "Mul x0 x1; Neg y0");
}

TEST(ElementwiseSteps, SayWhatDoesNotRead) {
  EXPECT_THAT(error_of([] { elementwise_steps("Sigmoid x1", 1); }), HasSubstr("'x1' is no number"));
  EXPECT_THAT(error_of([] { elementwise_steps("Neg y0", 1); }), HasSubstr("none of 0 steps"));
  EXPECT_THAT(error_of([] { elementwise_steps("Softmax x0", 1); }), HasSubstr("Softmax with 1"));
  EXPECT_THAT(error_of([] { elementwise_steps("Add x0", 1); }), HasSubstr("Add with 1 operands"));
  EXPECT_THAT(error_of([] { elementwise_steps("", 1); }), HasSubstr("0 steps"));
}

TEST(ElementwiseSteps, KeepNumbersToTheLastBit) {
  const std::string text = "Mul x0 0.1; Add y0 1.4142135623730951";
  const auto steps = elementwise_steps(text, 1);
  EXPECT_EQ(steps[1].operands[1].number, 1.4142135623730951);
  EXPECT_EQ(text_of(steps), text);
}

}  // namespace
}  // namespace ndtrain
