#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "framework/core/rng.h"
#include "framework/passes/moved.h"
#include "framework/passes/passes.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::count_nodes;
using testing::interpret_named;
using testing::largest_difference;
using testing::named_inputs;
using testing::random_tensor;

class MergeMoves : public ::testing::Test {
 protected:
  ValueId input(Shape s) { return g.add_input("x", {DType::kF32, std::move(s)}); }
  ValueId weight(const std::string& name, Shape s) {
    return g.add_param(name, random_tensor({DType::kF32, std::move(s)}, 1, name));
  }
  ValueId number(double v, DType t = DType::kF32) {
    return g.add_constant("", Tensor::from_doubles({t, {}}, {&v, 1}));
  }
  ValueId reshape(ValueId v, const Ints& dims) {
    return g.add1("Reshape", {v, g.add_constant("", dims)});
  }
  ValueId turn(ValueId v, Ints perm) {
    return g.add1("Transpose", {v}, {{"perm", std::move(perm)}});
  }
  ValueId linear(ValueId v, const std::string& name, int64_t in, int64_t out) {
    const ValueId y = g.add1("MatMul", {v, weight(name + ".w", {in, out})});
    return g.add1("Add", {y, weight(name + ".b", {out})});
  }
  ValueId index(ValueId v, int64_t axis, int64_t i) {
    return g.add1("Gather", {v, g.add_constant("", Tensor::of<int64_t>(DType::kI64, {}, {i}))},
                  {{"axis", axis}});
  }
  ValueId slice(ValueId v, int64_t axis, int64_t i) {
    const auto one = [&](int64_t n) { return g.add_constant("", Ints{n}); };
    const ValueId part = g.add1("Slice", {v, one(i), one(i + 1), one(axis)});
    return g.add1("Squeeze", {part, one(axis)});
  }
  ValueId softmax(ValueId v) { return g.add1("Softmax", {v}, {{"axis", int64_t{-1}}}); }

  void same_numbers(const Graph& r) {
    const auto given = named_inputs(g, 1);
    EXPECT_LE(largest_difference(interpret_named(r, given), interpret_named(g, given)), 1e-6);
  }
  Graph merged() {
    Graph r = merge_moves(g);
    same_numbers(r);
    return r;
  }
  // As a device would have it that takes every fusion.
  Graph fused() {
    Graph r = fuse_for_device(optimize_for_inference(g), {}, {}).graph;
    same_numbers(r);
    return r;
  }

  // MultiheadAttention as PyTorch's exporter writes it: rows before images, three heads of four.
  // `hold` is what stands around products in bytes.
  void multihead_attention(int64_t images, const std::function<ValueId(ValueId)>& hold) {
    const int64_t rows = 5, width = 12;
    const ValueId x = input({images, rows, width});
    const ValueId packed = linear(hold(turn(x, {1, 0, 2})), "in", width, 3 * width);
    const ValueId five =
        g.add1("Unsqueeze", {reshape(packed, {rows, images, 3, width}), g.add_constant("", {0})});
    const ValueId parts =
        g.add1("Squeeze", {turn(five, {3, 1, 2, 0, 4}), g.add_constant("", {-2})});
    ValueId of[3];
    for (int64_t k = 0; k < 3; ++k) {
      const ValueId heads = turn(reshape(index(parts, 0, k), {rows, images * 3, 4}), {1, 0, 2});
      of[k] = reshape(heads, {images, 3, rows, 4});
    }
    const ValueId upright =
        reshape(turn(reshape(of[1], {-1, rows, 4}), {0, 2, 1}), {images, 3, 4, rows});
    const ValueId q = g.add1("Mul", {of[0], number(0.7)}),
                  k = g.add1("Mul", {upright, number(0.7)});
    const ValueId y = g.add1("MatMul", {softmax(g.add1("MatMul", {q, k})), of[2]});
    const ValueId out = g.add1("Gemm",
                               {hold(reshape(hold(turn(hold(y), {2, 0, 1, 3})), {-1, width})),
                                weight("out.w", {width, width}), weight("out.b", {width})},
                               {{"transB", int64_t{1}}});
    const ValueId back = turn(reshape(out, {rows, images, width}), {1, 0, 2});
    g.mark_output(g.add1("Add", {back, x}));
  }

  Graph g;
};

ValueId as_it_is(ValueId v) { return v; }

TEST_F(MergeMoves, AnyRowOfThemIsOneTransposeAtMost) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(rng.next_below(n)); };
    g = Graph();
    ValueId v = input({2, 6, 1, 4, 3});
    size_t turns = 0;
    for (int step = 0; step < 6; ++step) {
      Ints dims = g.shape(v).dims();
      switch (below(3)) {
        case 0: {
          Ints perm(dims.size());
          std::iota(perm.begin(), perm.end(), 0);
          for (size_t i = perm.size(); i > 1; --i) std::swap(perm[i - 1], perm[below(i)]);
          v = turn(v, perm);
          ++turns;
          break;
        }
        case 1:  // two neighbours become one
          if (dims.size() > 1) {
            const size_t i = below(dims.size() - 1);
            dims[i] *= dims[i + 1];
            dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(i) + 1);
            v = reshape(v, dims);
          }
          break;
        default:  // one becomes two
          if (dims.size() < 7) {
            const size_t i = below(dims.size());
            for (const int64_t by : {2, 3, 1}) {
              if (dims[i] % by != 0) continue;
              dims[i] /= by;
              dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(i), by);
              break;
            }
            v = reshape(v, dims);
          }
      }
    }
    g.mark_output(g.add1("Neg", {v}));
    const Graph r = merged();
    EXPECT_LE(count_nodes(r, "Transpose"), 1) << "seed " << seed;
    EXPECT_LE(count_nodes(r, "Reshape"), std::max<int>(2, count_nodes(g, "Reshape")));
    EXPECT_EQ(r.shape(r.outputs()[0]), g.shape(g.outputs()[0]));
  }
}

TEST_F(MergeMoves, ThereAndBackIsNothing) {
  const ValueId x = input({2, 3, 4});
  g.mark_output(g.add1("Neg", {turn(turn(x, {2, 0, 1}), {1, 2, 0})}));
  EXPECT_EQ(merged().nodes().size(), 1U);
}

TEST_F(MergeMoves, WhatMovesNoFewerElementsStays) {
  const ValueId x = input({2, 3, 4});
  const ValueId y = turn(reshape(x, {6, 4}), {1, 0});
  for (const char* op : {"Neg", "Relu"}) g.mark_output(reshape(g.add1(op, {y}), {2, 12}));
  EXPECT_EQ(merged().nodes().size(), g.nodes().size());
}

TEST_F(MergeMoves, WhatSeveralReadIsTurnedOnce) {
  const ValueId y = turn(turn(input({2, 3, 4}), {2, 0, 1}), {0, 2, 1});
  g.mark_output(g.add1("Neg", {y}));
  g.mark_output(g.add1("Relu", {reshape(y, {4, 6})}));
  g.mark_output(g.add1("Neg", {turn(y, {1, 2, 0})}));
  const Graph r = merged();
  EXPECT_EQ(count_nodes(r, "Transpose"), 2);
}

TEST_F(MergeMoves, OutputsAreWhatTheyWere) {
  const ValueId y = turn(turn(input({2, 3, 4}), {2, 0, 1}), {0, 2, 1});
  g.rename(y, "turned");
  g.mark_output(y);
  const Graph r = merged();
  EXPECT_EQ(r.value(r.outputs()[0]).name, "turned");
  EXPECT_EQ(r.nodes().size(), 1U);
}

TEST_F(MergeMoves, PartsOfAPackedAxisAreASplit) {
  const ValueId packed = turn(reshape(input({2, 5, 24}), {2, 5, 3, 2, 4}), {2, 0, 3, 1, 4});
  for (int64_t k = 0; k < 3; ++k) g.mark_output(g.add1("Neg", {index(packed, 0, k - 3)}));
  const Graph r = merged();
  EXPECT_EQ(count_nodes(r, "Split"), 1);
  EXPECT_EQ(count_nodes(r, "Gather"), 0);
  EXPECT_EQ(count_nodes(r, "Transpose"), 3);
}

TEST_F(MergeMoves, PartsByOtherAxesStay) {
  const ValueId packed = turn(reshape(input({2, 5, 24}), {2, 5, 3, 2, 4}), {2, 0, 3, 1, 4});
  g.mark_output(g.add1("Neg", {index(packed, 2, 1)}));  // not outermost in the rows
  g.mark_output(g.add1("Neg", {turn(turn(packed, {1, 0, 2, 3, 4}), {1, 0, 2, 3, 4})}));
  const Graph r = merged();
  EXPECT_EQ(count_nodes(r, "Split"), 0);
  EXPECT_EQ(count_nodes(r, "Gather"), 1);
}

TEST_F(MergeMoves, SequenceFirstAttentionKeepsImagesFirst) {
  for (const int64_t images : {1, 3}) {
    g = Graph();
    multihead_attention(images, as_it_is);
    const Graph r = fused();
    EXPECT_EQ(count_nodes(r, "Transpose") + count_nodes(r, "Gather") + count_nodes(r, "Split"), 0);
    ASSERT_EQ(count_nodes(r, "FusedAttention"), 1);
    for (const Node& n : r.nodes()) {
      if (n.op == "FusedAttention") {
        EXPECT_EQ(n.attrs.i("packed"), 1);
      }
    }
  }
}

TEST_F(MergeMoves, SoDoesWhatIsHeldInBytes) {
  multihead_attention(3, [this](ValueId v) {
    const ValueId step = number(0.05), zero = number(120, DType::kU8);
    return g.add1("DequantizeLinear", {g.add1("QuantizeLinear", {v, step, zero}), step, zero});
  });
  const Graph r = merge_moves(optimize_for_inference(g));
  same_numbers(r);
  const Graph f = fuse_for_device(r, {}, {}).graph;
  EXPECT_EQ(count_nodes(f, "Transpose") + count_nodes(f, "Gather") + count_nodes(f, "Split"), 0);
  EXPECT_EQ(count_nodes(f, "FusedAttention"), 1);
}

TEST_F(MergeMoves, AttentionOfUnboundPartsIsPackedToo) {
  const ValueId x = input({2, 5, 12});
  const ValueId packed = turn(reshape(linear(x, "in", 12, 36), {2, 5, 3, 3, 4}), {2, 0, 3, 1, 4});
  const ValueId q = slice(packed, 0, 0), k = slice(packed, 0, 1), v = slice(packed, 0, 2);
  const ValueId scores = g.add1("MatMul", {g.add1("Mul", {q, number(0.5)}), turn(k, {0, 1, 3, 2})});
  const ValueId y = turn(g.add1("MatMul", {softmax(scores), v}), {0, 2, 1, 3});
  g.mark_output(linear(reshape(y, {2, 5, 12}), "out", 12, 12));
  const Graph r = fused();
  EXPECT_EQ(count_nodes(r, "Transpose") + count_nodes(r, "Slice"), 0);
  EXPECT_EQ(count_nodes(r, "FusedAttention"), 1);
}

TEST_F(MergeMoves, ANormalisationOfRowsOfOtherDimsIsOfTheLast) {
  for (const Ints& rows : {Ints{15}, Ints{5, 3, 1}, Ints{1, 5, 3}}) {
    g = Graph();
    Ints dims = rows;
    dims.push_back(12);
    ValueId v = reshape(turn(input({3, 5, 12}), {1, 0, 2}), dims);
    const auto last = static_cast<int64_t>(dims.size()) - 1;
    v = g.add1("LayerNormalization", {v, weight("scale", {12}), weight("bias", {12})},
               {{"axis", last}});
    v = g.add1("QuantizeLinear", {v, number(0.05), number(120, DType::kU8)}, {{"axis", last}});
    v = g.add1("DequantizeLinear", {v, number(0.05), number(120, DType::kU8)}, {{"axis", last}});
    g.mark_output(g.add1("Neg", {turn(reshape(v, {5, 3, 12}), {1, 0, 2})}));
    EXPECT_EQ(count_nodes(merged(), "Transpose"), 0);
  }
}

TEST_F(MergeMoves, ASliceFromBeforeTheFirstIndexStays) {
  const ValueId x = input({2, 5, 24});
  const ValueId packed = turn(reshape(x, {2, 5, 3, 8}), {2, 0, 1, 3});
  const auto one = [&](int64_t n) { return g.add_constant("", Ints{n}); };
  g.mark_output(g.add1("Neg", {g.add1("Slice", {packed, one(-9), one(1), one(0)})}));
  g.mark_output(g.add1("Neg", {turn(turn(x, {1, 0, 2}), {1, 0, 2})}));
  EXPECT_EQ(count_nodes(merged(), "Slice"), 1);
}

TEST_F(MergeMoves, RowsWaitForNoMoveThatDoesNotCome) {
  const ValueId y = turn(turn(input({2, 5, 3, 4}), {0, 1, 3, 2}), {1, 0, 3, 2});
  g.mark_output(linear(reshape(y, {5, 2, 12}), "w", 12, 36));  // three times as wide behind
  const Graph r = merged();
  ASSERT_EQ(count_nodes(r, "Transpose"), 1);
  EXPECT_EQ(r.nodes()[0].op, "Transpose");
}

TEST(Moved, AnExtentThatIsNoProductOfFactorsIsRefused) {
  const Moved x = transposed(unmoved(ValueId{0}, {4, 6}), {1, 0});
  EXPECT_FALSE(reshaped(x, {4, 6}).has_value());
  EXPECT_FALSE(reshaped(x, {8, 3}).has_value());
  ASSERT_TRUE(reshaped(x, {3, 8}).has_value());
  EXPECT_EQ(reshaped(x, {3, 8})->shape(), (Shape{3, 8}));
  EXPECT_EQ(reshaped(x, {1, 2, 3, 1, 4})->shape(), (Shape{1, 2, 3, 1, 4}));
}

}  // namespace
}  // namespace ndtrain
