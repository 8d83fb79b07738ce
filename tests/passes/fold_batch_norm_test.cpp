#include <gtest/gtest.h>

#include "framework/passes/passes.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::count_nodes;
using testing::interpret_named;
using testing::largest_difference;
using testing::named_inputs;
using testing::random_tensor;

class FoldBatchNorm : public ::testing::Test {
 protected:
  ValueId param(const std::string& name, Shape shape) {
    return g.add_param(name, random_tensor({DType::kF32, std::move(shape)}, 1, name));
  }
  ValueId batch_norm(ValueId from, const std::string& name, Attrs attrs = {}) {
    const Shape c{g.shape(from)[1]};
    std::vector<float> var;
    for (int64_t i = 0; i < c[0]; ++i) var.push_back(0.25F + static_cast<float>(i));
    const ValueId variance = g.add_param(name + ".var", Tensor::of(DType::kF32, c, var));
    return g.add1("BatchNormalization",
                  {from, param(name + ".scale", c), param(name + ".bias", c),
                   param(name + ".mean", c), variance},
                  std::move(attrs));
  }
  void expect_same(const Graph& folded) {
    const auto given = named_inputs(g, 1);
    EXPECT_LE(largest_difference(interpret_named(folded, given), interpret_named(g, given)), 1e-5);
  }
  Graph g;
  ValueId x = g.add_input("x", {DType::kF32, {2, 4, 5, 5}});
};

TEST_F(FoldBatchNorm, FoldsIntoAConvolutionWithAndWithoutBias) {
  const ValueId a = batch_norm(g.add1("Conv", {x, param("w0", {3, 4, 3, 3})}), "a");
  const ValueId conv = g.add1("Conv", {a, param("w1", {6, 3, 1, 1}), param("b1", {6})});
  const ValueId b = batch_norm(conv, "b", {{"epsilon", 0.01}});
  g.rename(b, "y");
  g.mark_output(b);
  const Graph r = fold_batch_norm(g);
  EXPECT_EQ(count_nodes(r, "BatchNormalization"), 0);
  EXPECT_EQ(count_nodes(r, "Conv"), 2);
  EXPECT_EQ(r.value(r.outputs()[0]).name, "y");
  expect_same(r);
}

TEST_F(FoldBatchNorm, FoldsIntoGroups) {
  const Attrs groups{{"group", int64_t{2}}, {"pads", Ints{1, 1, 1, 1}}};
  const ValueId conv = g.add1("Conv", {x, param("w", {6, 2, 3, 3}), param("b", {6})}, groups);
  g.mark_output(batch_norm(conv, "a"));
  const Graph r = fold_batch_norm(g);
  EXPECT_EQ(r.nodes().size(), 1U);
  EXPECT_EQ(r.nodes()[0].attrs.i("group"), 2);
  expect_same(r);
}

TEST_F(FoldBatchNorm, AConvolutionReadTwiceIsLeftAlone) {
  const ValueId conv = g.add1("Conv", {x, param("w", {3, 4, 3, 3})});
  g.mark_output(g.add1("Add", {batch_norm(conv, "a"), conv}));
  EXPECT_EQ(count_nodes(fold_batch_norm(g), "BatchNormalization"), 1);
}

TEST_F(FoldBatchNorm, AConvolutionThatIsAnOutputIsLeftAlone) {
  const ValueId conv = g.add1("Conv", {x, param("w", {3, 4, 3, 3})});
  g.mark_output(batch_norm(conv, "a"));
  g.mark_output(conv);
  const Graph r = fold_batch_norm(g);
  EXPECT_EQ(count_nodes(r, "BatchNormalization"), 1);
  expect_same(r);
}

TEST_F(FoldBatchNorm, SharedWeightsAreScaledForEachReader) {
  const ValueId w = param("w", {3, 4, 3, 3});
  const ValueId a = batch_norm(g.add1("Conv", {x, w}), "a");
  g.mark_output(g.add1("Add", {a, g.add1("Conv", {x, w})}));
  const Graph r = fold_batch_norm(g);
  EXPECT_EQ(count_nodes(r, "BatchNormalization"), 0);
  expect_same(r);
}

TEST_F(FoldBatchNorm, TrainingAndWeightsToComeAreLeftAlone) {
  const ValueId unknown = g.add_param("unknown", {DType::kF32, {3, 4, 3, 3}});
  g.mark_output(batch_norm(g.add1("Conv", {x, unknown}), "a"));
  const ValueId conv = g.add1("Conv", {x, param("w", {3, 4, 3, 3})});
  g.mark_output(batch_norm(conv, "b", {{"training_mode", int64_t{1}}}));
  EXPECT_EQ(count_nodes(fold_batch_norm(g), "BatchNormalization"), 2);
}

TEST_F(FoldBatchNorm, OnlyAConvolutionTakesIt) {
  g.mark_output(batch_norm(g.add1("Relu", {x}), "a"));
  g.mark_output(batch_norm(x, "b"));
  const Graph r = fold_batch_norm(g);
  EXPECT_EQ(count_nodes(r, "BatchNormalization"), 2);
  expect_same(r);
}

}  // namespace
}  // namespace ndtrain
