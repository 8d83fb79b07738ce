#include <gtest/gtest.h>

#include <cmath>

#include "framework/passes/rewrites.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::count_nodes;
using testing::interpret_named;
using testing::largest_difference;
using testing::named_inputs;
using testing::random_tensor;

class Recognise : public ::testing::Test {
 protected:
  ValueId number(double v) {
    return g.add_constant("", Tensor::from_doubles({DType::kF32, {}}, {&v, 1}));
  }
  ValueId row() {
    const std::string name = "p" + std::to_string(params_++);
    return g.add_param(name, random_tensor({DType::kF32, {6}}, 1, name));
  }
  ValueId apply(std::string op, std::vector<ValueId> in, Attrs attrs = {}) {
    return g.add1(std::move(op), std::move(in), std::move(attrs));
  }
  ValueId one_plus_erf(double divisor = std::sqrt(2.0)) {
    return apply("Add", {apply("Erf", {apply("Div", {x, number(divisor)})}), number(1)});
  }
  ValueId mean(ValueId v, int64_t axis = -1) {
    return apply("ReduceMean", {v, g.add_constant("", {axis})});
  }
  ValueId centred(int64_t axis = -1) { return apply("Sub", {x, mean(x, axis)}); }
  ValueId standardised(ValueId c) {
    const ValueId var = mean(apply("Pow", {c, number(2)}));
    return apply("Div", {c, apply("Sqrt", {apply("Add", {var, number(1e-3)})})});
  }

  // What is recognised computes the same.
  Graph recognised() {
    Graph r = rewrite(g, kFunctions).graph;
    const auto given = named_inputs(g, 1);
    EXPECT_LE(largest_difference(interpret_named(r, given), interpret_named(g, given)), 1e-6);
    for (size_t k = 0; k < g.outputs().size(); ++k) {
      EXPECT_EQ(r.value(r.outputs()[k]).name, g.value(g.outputs()[k]).name);
    }
    return r;
  }
  size_t left() { return recognised().nodes().size(); }

  Graph g;
  ValueId x = g.add_input("x", {DType::kF32, {2, 3, 6}});

 private:
  int params_ = 0;
};

TEST_F(Recognise, GeluWithItsFactorsInAnyOrder) {
  g.mark_output(apply("Mul", {apply("Mul", {x, one_plus_erf()}), number(0.5)}));
  g.mark_output(apply("Mul", {apply("Mul", {number(0.5), x}), one_plus_erf()}));
  g.mark_output(apply("Mul", {apply("Mul", {one_plus_erf(), number(0.5)}), x}));
  const Graph r = recognised();
  EXPECT_EQ(r.nodes().size(), 3U);
  EXPECT_EQ(count_nodes(r, "Gelu"), 3);
}

TEST_F(Recognise, AGeluThatIsMultipliedFurther) {
  const ValueId gelu = apply("Mul", {apply("Mul", {x, one_plus_erf()}), number(0.5)});
  g.mark_output(apply("Mul", {gelu, row()}));
  EXPECT_EQ(left(), 2U);
}

TEST_F(Recognise, NoGeluWithOtherNumbersOrOfSomethingElse) {
  g.mark_output(apply("Mul", {apply("Mul", {x, one_plus_erf(1.5)}), number(0.5)}));
  g.mark_output(apply("Mul", {apply("Mul", {x, one_plus_erf()}), number(0.25)}));
  g.mark_output(apply("Mul", {apply("Mul", {apply("Relu", {x}), one_plus_erf()}), number(0.5)}));
  EXPECT_EQ(count_nodes(recognised(), "Gelu"), 0);
}

TEST_F(Recognise, NothingWhoseInsideIsReadElsewhere) {
  const ValueId e = one_plus_erf();
  g.mark_output(apply("Mul", {apply("Mul", {x, e}), number(0.5)}));
  g.mark_output(e);
  EXPECT_EQ(left(), g.nodes().size());
}

TEST_F(Recognise, HardSwishOfOneValueOnly) {
  const Attrs slope{{"alpha", 1.0 / 6}, {"beta", 0.5}};
  g.mark_output(apply("Mul", {x, apply("HardSigmoid", {x}, slope)}));
  g.mark_output(apply("Mul", {apply("HardSigmoid", {x}, slope), x}));
  g.mark_output(apply("Mul", {apply("Relu", {x}), apply("HardSigmoid", {x}, slope)}));
  g.mark_output(apply("Mul", {x, apply("HardSigmoid", {x})}));
  EXPECT_EQ(count_nodes(recognised(), "HardSwish"), 2);
}

TEST_F(Recognise, LayerNormalization) {
  g.mark_output(apply("Add", {apply("Mul", {standardised(centred()), row()}), row()}));
  g.mark_output(apply("Add", {row(), apply("Mul", {row(), standardised(centred())})}));
  EXPECT_EQ(count_nodes(recognised(), "LayerNormalization"), 2);
  EXPECT_EQ(left(), 2U);
}

TEST_F(Recognise, NoLayerNormalizationOverAnotherAxisOrWithoutItsParts) {
  g.mark_output(apply("Add", {apply("Mul", {standardised(centred(1)), row()}), row()}));
  g.mark_output(apply("Add", {standardised(centred()), row()}));
  const ValueId c = centred();
  g.mark_output(apply("Add", {apply("Mul", {standardised(c), row()}), row()}));
  g.mark_output(c);
  EXPECT_EQ(left(), g.nodes().size());
}

// As PyTorch's exporters write an adaptive pool to one pixel, and a mean.
TEST_F(Recognise, MeansOfMapsAsAPool) {
  const ValueId maps = g.add_input("maps", {DType::kF32, {2, 3, 4, 5}});
  const auto mean_of = [&](const Ints& axes, int64_t keepdims) {
    return apply("ReduceMean", {maps, g.add_constant("", axes)}, {{"keepdims", keepdims}});
  };
  g.mark_output(mean_of({-1, -2}, 1));
  g.mark_output(mean_of({2, 3}, 0));
  const Graph pools = recognised();
  EXPECT_EQ(count_nodes(pools, "GlobalAveragePool"), 2);
  EXPECT_EQ(count_nodes(pools, "ReduceMean"), 0);
  EXPECT_EQ(pools.shape(pools.outputs()[0]), (Shape{2, 3, 1, 1}));
  EXPECT_EQ(pools.shape(pools.outputs()[1]), (Shape{2, 3}));
}

TEST_F(Recognise, NoPoolOfOtherAxesOrTypes) {
  const ValueId square = g.add_input("square", {DType::kF32, {2, 4, 5, 4}});
  for (const Ints& axes : {Ints{1, 2}, Ints{2}, Ints{1, 2, 3}, Ints{0, 2, 3}}) {
    g.mark_output(apply("ReduceMean", {square, g.add_constant("", axes)}, {{"keepdims", 0}}));
  }
  const ValueId maps = g.add_constant("", Ints{2, 3});
  g.mark_output(apply("ReduceMean", {g.add_input("whole", {DType::kI32, {2, 3, 4, 5}}), maps}));
  g.mark_output(apply("ReduceMean", {square}));
  g.mark_output(apply("ReduceMean", {x, g.add_constant("", Ints{1, 2})}));
  EXPECT_EQ(count_nodes(recognised(), "GlobalAveragePool"), 0);
}

}  // namespace
}  // namespace ndtrain
