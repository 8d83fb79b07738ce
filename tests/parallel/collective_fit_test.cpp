#include "framework/parallel/collective_fit.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/core/rng.h"

namespace ndtrain {
namespace {

// 8 K to 4 M elements.
std::vector<CollectiveTiming> timings(double alpha, double beta, double noise, Rng rng) {
  std::vector<CollectiveTiming> all;
  for (int64_t bytes = 32 << 10; bytes <= 16 << 20; bytes *= 2) {
    const double off = noise * (2 * rng.next_uniform() - 1);
    all.push_back({bytes, (alpha + beta * static_cast<double>(bytes)) * (1 + off)});
  }
  return all;
}

TEST(CollectiveFit, FindsTheLineThatTimesLieOn) {
  const auto c = fit_collective(timings(3e-4, 2e-8, 0, Rng(1)));
  EXPECT_NEAR(c.alpha_s, 3e-4, 1e-12);
  EXPECT_NEAR(c.beta_s_per_byte, 2e-8, 1e-16);
}

// The noise of the largest, 16 ms, is above the latency.
TEST(CollectiveFit, PredictsSmallOnesToTheNoiseOfTheirOwn) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto c = fit_collective(timings(1e-3, 2e-8, 0.05, Rng(seed)));
    for (const CollectiveTiming& t : timings(1e-3, 2e-8, 0, Rng(0))) {
      const double predicted = c.seconds(t.bytes / CostProfile::kElementBytes);
      EXPECT_NEAR(predicted, t.seconds, 0.1 * t.seconds) << "seed " << seed << ": " << t.bytes;
    }
  }
}

// 90 MB/s behind a bucket of 875 KB, which the first two do not empty.
TEST(CollectiveFit, OfALinkWithATokenBucketIsThatOfLargeOnes) {
  constexpr double kPerByte = 1 / 90e6;
  const CollectiveTiming shaped[] = {{32 << 10, 0.2e-3},
                                     {128 << 10, 0.35e-3},
                                     {512 << 10, (512 << 10) * kPerByte},
                                     {2 << 20, (2 << 20) * kPerByte}};
  EXPECT_NEAR(fit_collective(shaped).beta_s_per_byte, kPerByte, 0.2 * kPerByte);
}

TEST(CollectiveFit, NeitherNumberIsBelowNothing) {
  const CollectiveTiming through_below[] = {{100, 1}, {200, 3}, {300, 5}};
  const auto steep = fit_collective(through_below);
  EXPECT_EQ(steep.alpha_s, 0);
  EXPECT_GT(steep.beta_s_per_byte, 0.01);
  const CollectiveTiming falling[] = {{100, 5}, {200, 3}, {300, 1}};
  const auto flat = fit_collective(falling);
  EXPECT_EQ(flat.beta_s_per_byte, 0);
  EXPECT_GT(flat.alpha_s, 1);
}

TEST(CollectiveFit, RefusesTimesThatSayNothing) {
  EXPECT_THROW(fit_collective({}), Error);
  const CollectiveTiming one[] = {{100, 1}, {100, 2}};
  EXPECT_THROW(fit_collective(one), Error);
  const CollectiveTiming zero[] = {{100, 0}, {200, 2}};
  EXPECT_THROW(fit_collective(zero), Error);
  const CollectiveTiming negative[] = {{-100, 1}, {200, 2}};
  EXPECT_THROW(fit_collective(negative), Error);
}

}  // namespace
}  // namespace ndtrain
