#include "framework/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

using Kind = Schedule::Kind;

TEST(Schedule, ConstantIsConstant) {
  const Schedule s{.lr = 0.5, .total_steps = 10};
  for (int64_t step : {0, 1, 9, 100}) EXPECT_EQ(learning_rate(s, step), 0.5);
}

TEST(Schedule, WarmUpIsLinearAndThenTheScheduleBegins) {
  const Schedule s{.kind = Kind::kCosine, .lr = 0.8, .warmup_steps = 4, .total_steps = 14};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(s, 3), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(s, 4), 0.8);
  EXPECT_LT(learning_rate(s, 5), 0.8);
}

TEST(Schedule, CosineFallsToItsFinalFraction) {
  const Schedule s{.kind = Kind::kCosine, .lr = 1, .total_steps = 100, .final_fraction = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 50), 0.1 + 0.9 * 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 25), 0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5)));
  EXPECT_DOUBLE_EQ(learning_rate(s, 100), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1000), 0.1);
  for (int64_t step = 1; step <= 100; ++step) {
    EXPECT_LT(learning_rate(s, step), learning_rate(s, step - 1));
  }
}

TEST(Schedule, StepsFallByTheirFactor) {
  Schedule s{.kind = Kind::kStep, .lr = 1, .total_steps = 30, .step_every = 4, .step_factor = 0.5};
  EXPECT_DOUBLE_EQ(learning_rate(s, 3), 1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 4), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 11), 0.25);
  s.step_every = 0;  // thirds
  EXPECT_DOUBLE_EQ(learning_rate(s, 9), 1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 10), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 29), 0.25);
}

TEST(Schedule, NdpipeHasItsFiveRates) {
  const Schedule s{.kind = Kind::kNdpipe, .lr = 0.015, .total_steps = 50};
  const double want[] = {0.015, 0.012, 0.0075, 0.0045, 0.0015};
  for (int64_t step = 0; step < 50; ++step) {
    EXPECT_NEAR(learning_rate(s, step), want[step / 10], 1e-15) << "step " << step;
  }
  EXPECT_NEAR(learning_rate(s, 50), 0.0015, 1e-15);
}

TEST(Schedule, TheFivePartsAreOfWhatFollowsWarmUp) {
  const Schedule s{.kind = Kind::kNdpipe, .lr = 1, .warmup_steps = 10, .total_steps = 60};
  EXPECT_DOUBLE_EQ(learning_rate(s, 19), 1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 20), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(s, 59), 0.1);
}

TEST(Schedule, ATrainingShorterThanFivePartsIsFine) {
  const Schedule s{.kind = Kind::kNdpipe, .lr = 1, .total_steps = 2};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1), 0.5);
}

TEST(Schedule, NamesAreKnown) {
  EXPECT_EQ(schedule_named("cosine"), Kind::kCosine);
  EXPECT_EQ(schedule_named("ndpipe"), Kind::kNdpipe);
  EXPECT_THROW(schedule_named("cosinus"), Error);
}

}  // namespace
}  // namespace ndtrain
