#include "framework/sparse/sync/whole_gradient.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "framework/sparse/selection/scan.h"

namespace ndtrain {
namespace {

constexpr size_t kSizes[] = {0, 1, 1023, 1024, 1025, 700'001};

TEST(WholeGradient, IsAddedElementByElement) {
  for (const size_t n : kSizes) {
    std::vector<float> to(n), from(n), sum(n);
    for (size_t i = 0; i < n; ++i) {
      to[i] = static_cast<float>(i) / 3;
      from[i] = 1000 - static_cast<float>(i) / 7;
      sum[i] = to[i] + from[i];
    }
    std::vector<float> beside = to;
    add_to(to, from.data());
    EXPECT_EQ(to, sum);

    std::vector<float> sums((n + kBlockElements - 1) / kBlockElements), expected(sums.size());
    add_to(beside, from.data(), sums);
    EXPECT_EQ(beside, sum);
    block_sums(sum, expected, InstructionSet::kBaseline);
    EXPECT_EQ(sums, expected) << "of " << n;
  }
}

TEST(WholeGradient, IsFiniteWhereAllElementsAre) {
  for (const size_t n : kSizes) {
    std::vector<float> values(n, -2.5F);
    EXPECT_TRUE(are_finite(values));
    for (size_t at = 0; at < n; at += 1 + n / 5) {
      values[at] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_FALSE(are_finite(values)) << at << " of " << n;
      values[at] = -2.5F;
    }
  }
}

}  // namespace
}  // namespace ndtrain
