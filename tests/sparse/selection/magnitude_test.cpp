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
    const InstructionSet set = instruction_sets_here().back();
    for (int64_t i = 0; i < n; i += 1 + n / 50) {
      EXPECT_EQ(nth_magnitude(values, i, set), sorted[i]) << i;
    }
    EXPECT_EQ(nth_magnitude(values, n - 1, set), sorted.back());
    EXPECT_THROW(nth_magnitude(values, n, set), Error);
    EXPECT_THROW(nth_magnitude(values, -1, set), Error);
  }
}

// Whether a sample of the values lies as they do, or not at all.
TEST(Magnitude, OfNumberNOfManyIsThatOfAllSorted) {
  constexpr size_t kMany = 300'000, kStride = kMany / 4096;
  std::vector<float> flat(kMany, 0.5F), none(kMany), sampled(kMany, 0.25F), hidden(kMany, 0.25F);
  for (size_t i = 0; i < kMany; i += kStride) sampled[i] = static_cast<float>(i);
  for (size_t i = 1; i < kMany; i += kStride) hidden[i] = static_cast<float>(i);
  std::vector<float> broken = wild_gradient(kMany, 3);
  for (size_t i = 0; i < kMany; i += 3) broken[i] = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& values :
       {wild_gradient(kMany, 1), flat, none, sampled, hidden, broken}) {
    std::vector<uint32_t> sorted;
    for (const float x : values) sorted.push_back(magnitude(x));
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    for (const InstructionSet set : instruction_sets_here()) {
      for (const int64_t i : {0, 1, 40, 3000, 4095, 4096, 20'000, 150'000, 299'999}) {
        EXPECT_EQ(nth_magnitude(values, i, set), sorted[i]) << i;
      }
    }
  }
}

TEST(Magnitude, LargestFiniteLeavesOutWhatIsNot) {
  EXPECT_EQ(largest_finite_magnitude(std::vector<float>{1, -7, INFINITY, NAN, 3}), magnitude(7.0F));
  EXPECT_EQ(largest_finite_magnitude(std::vector<float>{NAN}), 0U);
}

}  // namespace
}  // namespace ndtrain
