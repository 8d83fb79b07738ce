#include "framework/comm/sum_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/core/rng.h"
#include "tests/comm/tree_oracle.h"

namespace ndtrain::comm_tests {
namespace {

using ::testing::ElementsAre;

TEST(SumTree, TheSubtreesOfSomeLeavesAreTheLargestOnes) {
  EXPECT_THAT(subtrees_of(0, 8, 8), ElementsAre(Subtree{0, 8}));
  EXPECT_THAT(subtrees_of(0, 3, 8), ElementsAre(Subtree{0, 2}, Subtree{2, 3}));
  EXPECT_THAT(subtrees_of(3, 5, 8), ElementsAre(Subtree{3, 4}, Subtree{4, 5}));
  EXPECT_THAT(subtrees_of(5, 8, 8), ElementsAre(Subtree{5, 6}, Subtree{6, 8}));
  EXPECT_THAT(subtrees_of(1, 7, 8),
              ElementsAre(Subtree{1, 2}, Subtree{2, 4}, Subtree{4, 6}, Subtree{6, 7}));
  // The last nodes of a tree that is not full.
  EXPECT_THAT(subtrees_of(4, 6, 6), ElementsAre(Subtree{4, 6}));
  EXPECT_THAT(subtrees_of(4, 7, 7), ElementsAre(Subtree{4, 7}));
  EXPECT_THAT(subtrees_of(6, 7, 7), ElementsAre(Subtree{6, 7}));
  EXPECT_THAT(subtrees_of(0, 5, 5), ElementsAre(Subtree{0, 5}));
  EXPECT_THAT(subtrees_of(2, 2, 5), ElementsAre());
}

TEST(SumTree, RefusesWhatAreNoLeaves) {
  EXPECT_THROW(subtrees_of(-1, 1, 4), Error);
  EXPECT_THROW(subtrees_of(2, 1, 4), Error);
  EXPECT_THROW(subtrees_of(0, 5, 4), Error);
}

// Wherever the leaves are cut into what two or three ranks have: one set of bits.
TEST(SumTree, AnyDivisionOfTheLeavesGivesTheBitsOfTheTree) {
  constexpr size_t kValues = 5;
  for (int leaves = 1; leaves <= 17; ++leaves) {
    const Leaves values = random_leaves(leaves, kValues, 3);
    const std::vector<float> expected = tree_sum(values, 0, leaves);
    for (int a = 0; a <= leaves; ++a) {
      for (int b = a; b <= leaves; ++b) {
        std::vector<std::vector<float>> partials;
        std::vector<Addend> addends;
        for (const auto& [begin, end] : {std::pair(0, a), std::pair(a, b), std::pair(b, leaves)}) {
          for (const Subtree& s : subtrees_of(begin, end, leaves)) {
            partials.push_back(tree_sum(values, s.begin, s.end));
            addends.push_back({.node = s, .values = partials.back().data()});
          }
        }
        std::vector<float> sum(kValues);
        add_in_tree_order(addends, leaves, sum);
        ASSERT_EQ(sum, expected) << leaves << " leaves, cut at " << a << " and " << b;
      }
    }
  }
}

TEST(SumTree, ASumLongerThanABlockMayTakeThePlaceOfAnAddend) {
  constexpr size_t kValues = 5000;
  Leaves values = random_leaves(3, kValues, 4);
  const std::vector<float> expected = tree_sum(values, 0, 3);
  const Addend addends[] = {
      {{0, 1}, values[0].data()}, {{1, 2}, values[1].data()}, {{2, 3}, values[2].data()}};
  add_in_tree_order(addends, 3, values[1]);
  EXPECT_EQ(values[1], expected);
}

TEST(SumTree, AddsWhatWasRoundedInF32) {
  const uint16_t bf16[] = {bf16_from_f32(1.5f)}, f16[] = {f16_from_f32(0.1f)};
  const float f32[] = {1e-6f};
  const Addend addends[] = {
      {{0, 1}, bf16, DType::kBF16}, {{1, 2}, f16, DType::kF16}, {{2, 3}, f32}};
  float sum[1];
  add_in_tree_order(addends, 3, sum);
  EXPECT_EQ(sum[0], (1.5f + f32_from_f16(f16[0])) + 1e-6f);
}

TEST(SumTree, RefusesAddendsThatAreNotTheTree) {
  const float x[] = {1};
  float sum[1];
  const auto add = [&](std::vector<Addend> addends, int leaves) {
    for (Addend& a : addends) a.values = x;
    add_in_tree_order(addends, leaves, sum);
  };
  EXPECT_THROW(add({}, 1), Error);
  EXPECT_THROW(add({{{0, 0}}, {{0, 1}}}, 1), Error);  // nothing in one
  EXPECT_THROW(add({{{0, 1}}}, 2), Error);            // one lacks
  EXPECT_THROW(add({{{0, 1}}, {{0, 1}}}, 1), Error);  // one twice
  EXPECT_THROW(add({{{0, 2}}, {{3, 4}}}, 4), Error);  // a hole
  EXPECT_THROW(add({{{0, 1}}, {{1, 3}}}, 3), Error);  // no node of it
  EXPECT_THROW(add({{{1, 2}}, {{0, 1}}}, 2), Error);  // another order
  EXPECT_NO_THROW(add({{{0, 2}}, {{2, 3}}}, 3));
}

}  // namespace
}  // namespace ndtrain::comm_tests
