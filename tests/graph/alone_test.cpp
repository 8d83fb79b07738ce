// A program of core and graph alone, with an op of its own: that it links is half of the test.
#include <gtest/gtest.h>

#include "framework/graph/differentiate.h"
#include "framework/graph/op.h"
#include "framework/graph/split.h"

namespace ndtrain {
namespace {

void infer(InferContext& c) { c.out.push_back(c.in[0]); }

void reference(const ReferenceContext& c) {
  for (size_t i = 0; i < c.out[0].size(); ++i) c.out[0][i] = c.in[0][i] * c.in[1][i];
}

std::vector<ValueId> gradient(GradientContext& c) {
  return {c.g.add1("Times", {c.dy[0], c.x(1)}), c.g.add1("Times", {c.dy[0], c.x(0)})};
}

std::vector<OpDef> own_ops() {
  return {{.name = "Times",
           .min_inputs = 2,
           .max_inputs = 2,
           .infer = infer,
           .reference = reference,
           .gradient = gradient}};
}

[[maybe_unused]] const bool added = add_ops(own_ops);

TEST(GraphAlone, HasTheOpsThatWereAdded) {
  ASSERT_EQ(all_ops().size(), 1U);
  EXPECT_EQ(&find_op("Times"), &all_ops()[0]);
  EXPECT_EQ(try_find_op("Conv"), nullptr);
  EXPECT_THROW(add_ops(own_ops), Error) << "the table is read";
}

TEST(GraphAlone, IsCutAndDifferentiated) {
  Graph g;
  const TensorType t{DType::kF32, {3}};
  const ValueId x = g.add_input("x", t), frozen = g.add_param("frozen", t), w = g.add_param("w", t);
  const ValueId y = g.add1("Times", {g.add1("Times", {x, frozen}), w});
  g.mark_output(y);
  const Split halves = split(g, std::vector{w});
  EXPECT_EQ(halves.extractor.nodes().size(), 1U);
  EXPECT_EQ(halves.trainable.nodes().size(), 1U);
  const std::vector<ValueId> dw =
      differentiate(g, std::vector{y}, std::vector{g.add_input("dy", t)}, std::vector{w});
  EXPECT_EQ(g.type(dw[0]), t);
  EXPECT_THROW(g.add1("Conv", {x, w}), Error);
}

}  // namespace
}  // namespace ndtrain
