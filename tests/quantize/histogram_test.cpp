#include "framework/quantize/histogram.h"

#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/rng.h"

namespace ndtrain {
namespace {

std::vector<float> normal(size_t n, double spread) {
  const Rng rng(1, "normal");
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) {
    double sum = -6;
    for (uint64_t k = 0; k < 12; ++k) sum += rng.uniform(12 * i + k);
    v[i] = static_cast<float>(sum * spread);
  }
  return v;
}

TEST(Histogram, GrowsWithoutLosingCount) {
  Histogram h;
  h.add(normal(5000, 1));
  const double half = h.magnitude(0.5);
  h.add(std::vector<float>{-1000, NAN, INFINITY});
  EXPECT_EQ(h.count(), 5001);
  EXPECT_EQ(h.largest(), 1000);
  EXPECT_NEAR(half, 0.674, 0.03);            // of the normal distribution
  EXPECT_NEAR(h.magnitude(0.5), half, 0.5);  // a bin is 0.25 wide now
  EXPECT_EQ(h.magnitude(1), 1000);
}

TEST(Histogram, ClippingPaysWhenFewValuesAreLarge) {
  Histogram h;
  h.add(normal(100000, 1));
  h.add(std::vector<float>{40});
  EXPECT_LT(h.best_clip(127), 30);
  EXPECT_GT(h.best_clip(127), 3);
  Histogram even;
  even.add(std::vector<float>{0.5F, 1, 2, 3});
  EXPECT_EQ(even.best_clip(255), 3);
}

}  // namespace
}  // namespace ndtrain
