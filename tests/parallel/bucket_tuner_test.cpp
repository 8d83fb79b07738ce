#include "framework/parallel/bucket_tuner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// The best bucket has 6 MiB.
double step_s(int64_t bytes) {
  const double off = std::log2(static_cast<double>(bytes) / (6.0 * kMiB));
  return 0.2 + 0.01 * off * off;
}

TEST(BucketTuner, BeginsAt25MiBAndEndsAfterTenTrialsOfFiveSteps) {
  BucketTuner tuner(Rng(1), {});
  EXPECT_EQ(tuner.bucket_bytes(), 25 * kMiB);
  std::set<int64_t> tried;
  for (int step = 0; step < 50; ++step) {
    EXPECT_FALSE(tuner.done());
    const int64_t before = tuner.bucket_bytes();
    tried.insert(before);
    EXPECT_GE(before, kMiB);
    EXPECT_LE(before, 256 * kMiB);
    const bool changed = tuner.step_took(step_s(before));
    EXPECT_EQ(changed, tuner.bucket_bytes() != before);
    EXPECT_TRUE(!changed || step % 5 == 4);
  }
  EXPECT_TRUE(tuner.done());
  EXPECT_GT(tried.size(), 5u);
  EXPECT_TRUE(tried.contains(tuner.bucket_bytes()));
  for (const int64_t t : tried) EXPECT_LE(step_s(tuner.bucket_bytes()), step_s(t));
  EXPECT_DOUBLE_EQ(tuner.best_step_s(), step_s(tuner.bucket_bytes()));
  EXPECT_LT(tuner.best_step_s(), 0.205);
  const int64_t kept = tuner.bucket_bytes();
  EXPECT_FALSE(tuner.step_took(0));
  EXPECT_EQ(tuner.bucket_bytes(), kept);
}

TEST(BucketTuner, OnlyTheLastTwoStepsOfATrialCount) {
  BucketTuner calm(Rng(2), {}), disturbed(Rng(2), {});
  for (int step = 0; step < 50; ++step) {
    ASSERT_EQ(calm.bucket_bytes(), disturbed.bucket_bytes());
    const double seconds = step_s(calm.bucket_bytes());
    calm.step_took(seconds);
    // The mean of the two is what counts.
    const double shift = step % 5 == 3 ? 0.03 : step % 5 == 4 ? -0.03 : 7.0 * step;
    disturbed.step_took(seconds + shift);
  }
  EXPECT_NEAR(disturbed.best_step_s(), calm.best_step_s(), 1e-12);
}

TEST(BucketTuner, IsAFunctionOfSeedAndTimes) {
  const auto path = [](uint64_t seed) {
    BucketTuner tuner(Rng(seed), {});
    std::vector<int64_t> sizes;
    while (!tuner.done()) {
      sizes.push_back(tuner.bucket_bytes());
      tuner.step_took(step_s(tuner.bucket_bytes()));
    }
    return sizes;
  };
  EXPECT_EQ(path(5), path(5));
  EXPECT_NE(path(5), path(6));
}

TEST(BucketTuner, RefusesWhatIsNoRangeNoTrialOrNoTime) {
  EXPECT_THROW(BucketTuner(Rng(1), {.least_bytes = 0}), Error);
  EXPECT_THROW(BucketTuner(Rng(1), {.first_bytes = 1}), Error);
  EXPECT_THROW(BucketTuner(Rng(1), {.most_bytes = 20 * kMiB}), Error);
  EXPECT_THROW(BucketTuner(Rng(1), {.first_bytes = 5, .least_bytes = 5, .most_bytes = 5}), Error);
  EXPECT_THROW(BucketTuner(Rng(1), {.trials = 0}), Error);
  EXPECT_THROW(BucketTuner(Rng(1), {.counted = 0}), Error);
  EXPECT_THROW(BucketTuner(Rng(1), {.steps = 3, .counted = 4}), Error);
  BucketTuner tuner(Rng(1), {});
  EXPECT_THROW(tuner.best_step_s(), Error);
  EXPECT_THROW(tuner.step_took(NAN), Error);
  EXPECT_THROW(tuner.step_took(-1), Error);
}

}  // namespace
}  // namespace ndtrain
