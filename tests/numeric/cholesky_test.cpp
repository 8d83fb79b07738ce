#include "framework/numeric/cholesky.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

TEST(Cholesky, SolvesWhatIsWrittenByHand) {
  // L = [2 0 0; 1 3 0; -1 2 1].
  const auto c = Cholesky::of({4, 0, 0, 2, 10, 0, -2, 5, 6}, 3);
  ASSERT_TRUE(c.has_value());
  EXPECT_THAT(c->half_solve(std::vector<double>{2, 7, 4}),
              ElementsAre(DoubleEq(1), DoubleEq(2), DoubleEq(1)));
  // A (1, 2, 3)
  EXPECT_THAT(c->solve(std::vector<double>{2, 37, 26}),
              ElementsAre(DoubleEq(1), DoubleEq(2), DoubleEq(3)));
  EXPECT_DOUBLE_EQ(c->log_determinant(), std::log(36));
}

TEST(Cholesky, WhatIsNotPositiveDefiniteHasNone) {
  EXPECT_FALSE(Cholesky::of({1, 0, 2, 1}, 2).has_value());
  EXPECT_FALSE(Cholesky::of({0}, 1).has_value());
  EXPECT_FALSE(Cholesky::of({1, 0, 1, 1}, 2).has_value());
  EXPECT_FALSE(Cholesky::of({NAN}, 1).has_value());
  EXPECT_THROW(Cholesky::of({1, 2, 3}, 2), Error);
}

}  // namespace
}  // namespace ndtrain
