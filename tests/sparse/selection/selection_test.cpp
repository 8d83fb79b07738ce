#include "framework/sparse/selection/selection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "framework/core/rng.h"

namespace ndtrain {
namespace {

TEST(Selection, WhatIsMovedOutLeavesZeros) {
  std::vector<float> values = {1, 2, 3, 4};
  Selection out;
  move_out(values, {0, 3}, out);
  EXPECT_EQ(out, (Selection{{0, 3}, {1, 4}}));
  EXPECT_EQ(values, (std::vector<float>{0, 2, 3, 0}));
}

TEST(Selection, SumsAreOfTheRanksInTheirOrder) {
  // In floats (1e8 + -1e8) + 1 is 1, and 1e8 + (-1e8 + 1) is 0.
  const std::vector<Selection> ranks = {{{3}, {1e8F}}, {{3}, {-1e8F}}, {{3}, {1}}};
  EXPECT_EQ(sum_of(ranks), (Selection{{3}, {1}}));
  const std::vector<Selection> turned = {ranks[2], ranks[1], ranks[0]};
  EXPECT_EQ(sum_of(turned), (Selection{{3}, {0}}));
}

TEST(Selection, SumsOfAnyNumberOfRanksAreThoseOfAMap) {
  for (int ranks = 0; ranks <= 9; ++ranks) {
    Rng rng(ranks, "selections");
    std::vector<Selection> of(ranks);
    std::map<uint32_t, float> sum;
    for (Selection& s : of) {
      for (uint32_t i = 0; i < 300; ++i) {
        if (rng.next_uniform() > 0.3) continue;
        const auto x = static_cast<float>(rng.next_normal());
        s.indices.push_back(i);
        s.values.push_back(x);
        const auto [at, first] = sum.try_emplace(i, x);
        if (!first) at->second += x;
      }
    }
    Selection expected;
    for (const auto& [i, x] : sum) {
      expected.indices.push_back(i);
      expected.values.push_back(x);
    }
    EXPECT_EQ(sum_of(of), expected) << ranks;
  }
}

TEST(Selection, AnElementOfOneRankKeepsItsBits) {
  const Selection sum = sum_of(std::vector<Selection>{{{0, 4294967294}, {-0.0F, 5}}, {{1}, {2}}});
  EXPECT_EQ(sum.indices, (std::vector<uint32_t>{0, 1, 4294967294}));
  EXPECT_TRUE(std::signbit(sum.values[0]));
}

}  // namespace
}  // namespace ndtrain
