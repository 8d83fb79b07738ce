#include <gtest/gtest.h>

#include "framework/passes/passes.h"
#include "framework/passes/rewrites.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::count_nodes;
using testing::interpret_named;
using testing::largest_difference;
using testing::named_inputs;

// Two images, three heads, five queries over seven keys of four numbers.
class FuseAttention : public ::testing::Test {
 protected:
  ValueId input(const char* name, Shape s) {
    return g.add_input(name, {DType::kF32, std::move(s)});
  }
  ValueId number(float x) { return g.add_constant("", Tensor::of<float>(DType::kF32, {}, {x})); }
  ValueId matmul(ValueId a, ValueId b) { return g.add1("MatMul", {a, b}); }
  ValueId softmax(ValueId scores, int64_t axis = -1) {
    return g.add1("Softmax", {scores}, {{"axis", axis}});
  }
  ValueId transposed(ValueId from, Ints perm) {
    return g.add1("Transpose", {from}, {{"perm", std::move(perm)}});
  }

  // Fuses for a device that takes all or none, and checks that the outputs keep their numbers.
  Graph fused(bool takes = true, const Rewrite& how = kAttention) {
    const Rewritten r = rewrite(g, how, {}, [&](Needs, const Graph& with, const Node& n) {
      EXPECT_EQ(with.shape(n.outputs[0]).rank(), 4);
      ++offered;
      return takes;
    });
    const auto given = named_inputs(g, 1);
    EXPECT_LE(largest_difference(interpret_named(r.graph, given), interpret_named(g, given)), 1e-6);
    for (size_t k = 0; k < g.outputs().size(); ++k) {
      EXPECT_EQ(r.now[index(g.outputs()[k])], r.graph.outputs()[k]);
    }
    return r.graph;
  }
  int attentions(bool takes = true) { return count_nodes(fused(takes), "FusedAttention"); }

  // y [2, 5, 3, 6] of queries, keys and values that have rows before heads.
  ValueId by_rows(bool in_bytes = false) {
    const ValueId of_rows =
        matmul(softmax(matmul(transposed(input("qr", {2, 5, 3, 4}), {0, 2, 1, 3}),
                              transposed(input("kr", {2, 7, 3, 4}), {0, 2, 3, 1}))),
               transposed(input("vr", {2, 7, 3, 6}), {0, 2, 1, 3}));
    return transposed(in_bytes ? quantized(of_rows, number(0.01F)) : of_rows, {0, 2, 1, 3});
  }
  ValueId quantized(ValueId x, ValueId step) {
    const ValueId zero =
        g.add_constant("", Tensor::from_doubles({DType::kU8, g.shape(step)},
                                                std::vector<double>(g.shape(step).count(), 128)));
    return g.add1("QuantizeLinear", {x, step, zero});
  }

  Graph g;
  ValueId q = input("q", {2, 3, 5, 4}), keys = input("keys", {2, 3, 4, 7}),
          v = input("v", {2, 3, 7, 6});
  int offered = 0;
};

TEST_F(FuseAttention, ProductSoftmaxProduct) {
  const ValueId y = matmul(softmax(matmul(q, keys)), v);
  g.rename(y, "y");
  g.mark_output(y);
  const Graph r = fused();
  EXPECT_EQ(count_nodes(r, "FusedAttention"), 1);
  EXPECT_EQ(count_nodes(r, "MatMul"), 0);
  EXPECT_EQ(r.value(r.outputs()[0]).name, "y");
}

TEST_F(FuseAttention, AScaleBeforeOrBehindTheFirstProductGoesAlong) {
  const ValueId before = g.add1("Mul", {number(0.5F), q});
  g.mark_output(matmul(softmax(matmul(before, keys)), v));
  const ValueId behind = g.add1("Div", {matmul(q, keys), number(3)});
  g.mark_output(matmul(softmax(behind), v));
  const Graph r = fused();
  EXPECT_EQ(count_nodes(r, "FusedAttention"), 2);
  EXPECT_EQ(count_nodes(r, "Mul") + count_nodes(r, "Div"), 0);
}

TEST_F(FuseAttention, AMaskGoesAlong) {
  const ValueId scores = g.add1("Mul", {matmul(q, keys), number(0.5F)});
  const ValueId mask = input("mask", {2, 1, 5, 7});
  g.mark_output(matmul(softmax(g.add1("Add", {mask, scores})), v));
  EXPECT_EQ(attentions(), 1);
}

TEST_F(FuseAttention, KeysAreReadBeforeTheirTranspose) {
  const ValueId upright = input("upright", {2, 7, 3, 4});
  g.mark_output(matmul(softmax(matmul(q, transposed(upright, {0, 2, 3, 1}))), v));
  const Graph r = fused();
  ASSERT_EQ(count_nodes(r, "FusedAttention"), 1);
  EXPECT_EQ(count_nodes(r, "Transpose"), 1);
  EXPECT_EQ(r.nodes().size(), 2U);
}

TEST_F(FuseAttention, TransposesOfRowsAndHeadsGoAlong) {
  g.mark_output(by_rows());
  const Graph r = remove_dead_nodes(fused(true, kAttentionOfRows));
  ASSERT_EQ(r.nodes().size(), 1U);
  EXPECT_EQ(r.nodes()[0].attrs.i("heads_axis"), 2);
}

TEST_F(FuseAttention, ASplitOfQueriesKeysAndValuesGoesAlong) {
  const ValueId third = g.add_constant("", std::vector<int64_t>{12, 12, 12});
  const std::vector<ValueId> qkv =
      g.add("Split", {input("qkv", {2, 5, 36}), third}, {{"axis", 2}}, 3);
  const auto heads = [&](ValueId part, Ints perm) {
    const ValueId to = g.add_constant("", std::vector<int64_t>{2, 5, 3, 4});
    return transposed(g.add1("Reshape", {part, to}), std::move(perm));
  };
  const ValueId weights = softmax(matmul(heads(qkv[0], {0, 2, 1, 3}), heads(qkv[1], {0, 2, 3, 1})));
  g.mark_output(transposed(matmul(weights, heads(qkv[2], {0, 2, 1, 3})), {0, 2, 1, 3}));
  const Graph r = remove_dead_nodes(fused(true, kAttentionOfRows));
  ASSERT_EQ(r.nodes().size(), 2U);
  EXPECT_EQ(r.nodes()[0].op, "Reshape");
  EXPECT_EQ(r.nodes()[1].attrs.i("packed"), 1);
}

TEST_F(FuseAttention, SoDoOnesOfItsBytes) {
  g.mark_output(by_rows(true));
  const Graph r = remove_dead_nodes(fused(true, kAttentionOfRows));
  ASSERT_EQ(r.nodes().size(), 2U);
  EXPECT_EQ(r.nodes()[0].attrs.i("heads_axis"), 2);
  EXPECT_EQ(r.nodes()[1].op, "QuantizeLinear");
}

TEST_F(FuseAttention, TransposesStayWhereQueriesHaveHeadsFirst) {
  g.mark_output(transposed(matmul(softmax(matmul(q, keys)), v), {0, 2, 1, 3}));
  EXPECT_EQ(count_nodes(fused(true, kAttentionOfRows), "FusedAttention"), 0);
  EXPECT_EQ(attentions(), 1);
}

// What a device takes, by the ops' names.
Accepts takes_all_but(std::string_view op) {
  return [op](Needs, const Graph&, const Node& n) { return n.op != op; };
}

TEST_F(FuseAttention, TrainedItGivesTheSumsThatItsGradientNeeds) {
  g.mark_output(by_rows());
  g.mark_output(matmul(softmax(matmul(q, keys)), v));
  const Graph r = fuse_trained_attention(g, {}, takes_all_but(""));
  ASSERT_EQ(count_nodes(r, "FusedAttention"), 2);
  for (const Node& n : r.nodes()) {
    EXPECT_EQ(n.outputs.size(), n.op == "FusedAttention" ? 2U : 1U);
  }
  const auto given = named_inputs(g, 1);
  EXPECT_LE(largest_difference(interpret_named(r, given), interpret_named(g, given)), 1e-6);
}

TEST_F(FuseAttention, WithoutAKernelOfItsGradientItIsNotTrained) {
  g.mark_output(by_rows());
  const Graph r = fuse_trained_attention(g, {}, takes_all_but("FusedAttentionGrad"));
  EXPECT_EQ(count_nodes(r, "FusedAttention"), 0);
}

TEST_F(FuseAttention, AMaskThatIsLearnedIsTrainedApart) {
  const ValueId bias =
      g.add_param("bias", testing::random_tensor({DType::kF32, {3, 5, 7}}, 1, "bias"));
  g.mark_output(matmul(softmax(g.add1("Add", {matmul(q, keys), bias})), v));
  EXPECT_EQ(count_nodes(fuse_trained_attention(g, {}, takes_all_but("")), "FusedAttention"), 0);
  EXPECT_EQ(attentions(), 1);
}

TEST_F(FuseAttention, AScaleThatIsLearnedStaysANodeOfItsOwn) {
  const ValueId by = g.add_param("by", Tensor::of<float>(DType::kF32, {1}, {0.5F}));
  g.mark_output(matmul(softmax(matmul(g.add1("Mul", {q, by}), keys)), v));
  const ValueId learned[] = {by};
  const Graph r = fuse_trained_attention(g, learned, takes_all_but(""));
  EXPECT_EQ(count_nodes(r, "Mul"), 1);
  EXPECT_EQ(count_nodes(r, "FusedAttention"), 1);
  EXPECT_EQ(count_nodes(fuse_trained_attention(g, {}, takes_all_but("")), "Mul"), 0);
}

TEST_F(FuseAttention, KeysAreScaledTooWherePyTorchScalesBoth) {
  const ValueId half = number(0.5F);
  g.mark_output(matmul(softmax(matmul(g.add1("Mul", {q, half}), g.add1("Mul", {keys, half}))), v));
  const Graph r = fused();
  ASSERT_EQ(count_nodes(r, "FusedAttention"), 1);
  EXPECT_EQ(count_nodes(r, "Mul"), 0);
}

// Two photos of three windows each; two heads, five queries over seven keys of four numbers.
class FuseAttentionOfWindows : public FuseAttention {
 protected:
  ValueId known(Shape s, const char* name) {
    return g.add_constant("", testing::random_tensor({DType::kF32, std::move(s)}, 1, name));
  }
  ValueId reshaped(ValueId from, const Ints& dims) {
    return g.add1("Reshape", {from, g.add_constant("", dims)});
  }
  // As exporters write it, with a bias unless it is kNone.
  ValueId scores(ValueId bias, ValueId mask, const Ints& split = {2, 3, 2, 5, 7}) {
    const ValueId keys = transposed(input("kw", {6, 2, 7, 4}), {0, 1, 3, 2});
    ValueId s = g.add1("Mul", {matmul(input("qw", {6, 2, 5, 4}), keys), number(0.5F)});
    if (bias != kNone) s = g.add1("Add", {s, bias});
    return reshaped(g.add1("Add", {reshaped(s, split), mask}), {6, 2, 5, 7});
  }
  ValueId attended(ValueId scores) { return matmul(softmax(scores), input("vw", {6, 2, 7, 6})); }
  ValueId learned(Shape s, const char* name) {
    return g.add_param(name, testing::random_tensor({DType::kF32, std::move(s)}, 1, name));
  }

  ValueId bias = known({1, 2, 5, 7}, "bias"), mask = known({1, 3, 1, 5, 7}, "mask");
};

// The shape of the mask that is known in the only node.
Shape only_mask(const Graph& fused) {
  const Graph r = remove_dead_nodes(fused);
  if (r.nodes().size() != 1 || r.nodes()[0].op != "FusedAttention") return {};
  const Value& v = r.value(r.nodes()[0].inputs.at(3));
  return v.data.defined() ? v.type.shape : Shape();
}

TEST_F(FuseAttentionOfWindows, TheirMaskAndTheBiasOfAllAreOneMask) {
  g.mark_output(attended(scores(bias, mask)));
  EXPECT_EQ(only_mask(fused()), (Shape{3, 2, 5, 7}));
}

TEST_F(FuseAttentionOfWindows, TheirMaskMayBeAlone) {
  g.mark_output(attended(scores(kNone, mask)));
  EXPECT_EQ(only_mask(fused()), (Shape{3, 1, 5, 7}));
}

TEST_F(FuseAttentionOfWindows, OfOnePhotoEachImageHasAMask) {
  g.mark_output(attended(scores(bias, known({6, 1, 1, 7}, "mask"), {1, 6, 2, 5, 7})));
  EXPECT_EQ(only_mask(fused()), (Shape{6, 2, 5, 7}));
}

TEST_F(FuseAttentionOfWindows, SoDoOnesThatHaveRowsBeforeHeads) {
  const ValueId s = matmul(transposed(input("qr", {6, 5, 2, 4}), {0, 2, 1, 3}),
                           transposed(input("kr", {6, 7, 2, 4}), {0, 2, 3, 1}));
  const ValueId split = reshaped(g.add1("Add", {s, bias}), {2, 3, 2, 5, 7});
  const ValueId joined = reshaped(g.add1("Add", {mask, split}), {6, 2, 5, 7});
  const ValueId values = transposed(input("vr", {6, 7, 2, 6}), {0, 2, 1, 3});
  g.mark_output(transposed(matmul(softmax(joined), values), {0, 2, 1, 3}));
  EXPECT_EQ(only_mask(fused(true, kAttentionOfRows)), (Shape{3, 2, 5, 7}));
}

TEST_F(FuseAttentionOfWindows, ABiasThatRunsChangeIsAddedInEachOfThem) {
  const ValueId changing = learned({1, 2, 5, 7}, "changing");
  g.mark_output(attended(scores(changing, mask)));
  const ValueId keep[] = {changing};
  const Graph r = remove_dead_nodes(rewrite(g, kAttention, keep).graph);
  EXPECT_EQ(count_nodes(r, "FusedAttention"), 1);
  EXPECT_EQ(count_nodes(r, "Add"), 1);
  const auto given = named_inputs(g, 1);
  EXPECT_LE(largest_difference(interpret_named(r, given), interpret_named(g, given)), 1e-6);
}

TEST_F(FuseAttentionOfWindows, WhatIsLearnedIsTrainedApart) {
  g.mark_output(attended(scores(learned({1, 2, 5, 7}, "of all"), mask)));
  g.mark_output(attended(scores(bias, learned({1, 3, 1, 5, 7}, "of windows"))));
  g.mark_output(attended(scores(bias, mask)));
  const Graph r = fuse_trained_attention(g, {}, takes_all_but(""));
  EXPECT_EQ(count_nodes(r, "FusedAttention"), 1);
  EXPECT_EQ(count_nodes(r, "Softmax"), 2);
  EXPECT_EQ(attentions(), 3);
}

TEST_F(FuseAttentionOfWindows, ReshapesThatSplitOtherDimsStay) {
  g.mark_output(attended(scores(bias, known({3, 1, 1, 1}, "a"), {2, 3, 5, 2, 7})));
  g.mark_output(attended(scores(bias, known({6, 1, 5, 7}, "b"), {2, 6, 1, 5, 7})));
  g.mark_output(attended(scores(bias, known({6, 5, 7}, "c"), {2, 6, 5, 7})));
  g.mark_output(attended(scores(bias, known({1}, "d"), {420})));
  EXPECT_EQ(attentions(), 0);
}

TEST_F(FuseAttentionOfWindows, MasksOfMoreDimsStay) {
  g.mark_output(attended(scores(known({1, 1, 2, 5, 7}, "of five"), mask)));
  g.mark_output(attended(scores(bias, known({1, 1, 3, 1, 5, 7}, "of six"))));
  EXPECT_EQ(attentions(), 0);
}

TEST_F(FuseAttentionOfWindows, MasksThatDifferFromPhotoToPhotoStay) {
  g.mark_output(attended(scores(bias, known({2, 3, 1, 5, 7}, "of photos"))));
  g.mark_output(attended(scores(known({6, 1, 5, 7}, "of images"), mask)));
  EXPECT_EQ(attentions(), 0);
}

TEST_F(FuseAttention, ScoresThatSomebodyElseReadsKeepTheirNodes) {
  const ValueId weights = softmax(matmul(q, keys));
  g.mark_output(matmul(weights, v));
  g.mark_output(weights);
  EXPECT_EQ(attentions(), 0);
  EXPECT_EQ(offered, 0);
}

TEST_F(FuseAttention, OtherAxesAndBroadcastHeadsAreNoAttention) {
  g.mark_output(matmul(softmax(matmul(q, keys), 2), v));
  g.mark_output(matmul(softmax(matmul(q, input("shared", {4, 7}))), v));
  EXPECT_EQ(attentions(), 0);
}

TEST_F(FuseAttention, ADeviceThatRefusesGetsTheNodesAsTheyWere) {
  g.mark_output(matmul(softmax(matmul(q, keys)), v));
  const Graph r = fused(false);
  EXPECT_EQ(offered, 1);
  EXPECT_EQ(r.nodes().size(), g.nodes().size());
}

}  // namespace
}  // namespace ndtrain
