#include "framework/sparse/selection/magnitude.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "framework/core/error.h"
#include "tests/sparse/selection/gradients.h"

namespace ndtrain {
namespace {

TEST(Magnitude, OrdersAsTheNumbersAndNanAboveInfinity) {
  EXPECT_LT(magnitude(-1.5F), magnitude(2.0F));
  EXPECT_EQ(magnitude(-3.0F), magnitude(3.0F));
  EXPECT_EQ(magnitude(-0.0F), magnitude(0.0F));
  EXPECT_EQ(magnitude(std::numeric_limits<float>::infinity()), kInfiniteMagnitude);
  EXPECT_GT(magnitude(-std::numeric_limits<float>::quiet_NaN()), kInfiniteMagnitude);
  EXPECT_EQ(of_magnitude(magnitude(-0.3F)), 0.3F);
}

TEST(Magnitude, OfNumberNIsThatOfAllSorted) {
  for (const int64_t n : {1, 2, 17, 1000, 5000}) {
    const std::vector<float> values = wild_gradient(n, n);
    std::vector<uint32_t> sorted;
    for (const float x : values) sorted.push_back(magnitude(x));
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    for (int64_t i = 0; i < n; i += 1 + n / 50) EXPECT_EQ(nth_magnitude(values, i), sorted[i]) << i;
    EXPECT_EQ(nth_magnitude(values, n - 1), sorted.back());
    EXPECT_THROW(nth_magnitude(values, n), Error);
    EXPECT_THROW(nth_magnitude(values, -1), Error);
  }
}

TEST(Magnitude, LargestFiniteLeavesOutWhatIsNot) {
  EXPECT_EQ(largest_finite_magnitude(std::vector<float>{1, -7, INFINITY, NAN, 3}), magnitude(7.0F));
  EXPECT_EQ(largest_finite_magnitude(std::vector<float>{NAN}), 0U);
}

}  // namespace
}  // namespace ndtrain
