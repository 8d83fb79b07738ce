#include "framework/sparse/sync/whole_gradient.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

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
    add_to(to, from.data());
    EXPECT_EQ(to, sum);
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
