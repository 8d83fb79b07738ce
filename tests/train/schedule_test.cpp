#include "framework/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/error.h"
#include "framework/train/trainer_config.h"

namespace ndtrain {
namespace {

using ScheduleKind = Schedule::Kind;

TEST(Schedule, ConstantIsConstant) {
  const Schedule s{.lr = 0.5, .total_steps = 10};
  for (int64_t step : {0, 1, 9, 100}) EXPECT_EQ(learning_rate(s, step), 0.5);
}

TEST(Schedule, WarmUpIsLinearAndThenTheScheduleBegins) {
  const Schedule s{.kind = ScheduleKind::kCosine, .lr = 0.8, .warmup_steps = 4, .total_steps = 14};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(s, 3), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(s, 4), 0.8);
  EXPECT_LT(learning_rate(s, 5), 0.8);
}

TEST(Schedule, CosineFallsToItsFinalFraction) {
  const Schedule s{
      .kind = ScheduleKind::kCosine, .lr = 1, .total_steps = 100, .final_fraction = 0.1};
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
  Schedule s{
      .kind = ScheduleKind::kStep, .lr = 1, .total_steps = 30, .step_every = 4, .step_factor = 0.5};
  EXPECT_DOUBLE_EQ(learning_rate(s, 3), 1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 4), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 11), 0.25);
  s.step_every = 0;  // thirds
  EXPECT_DOUBLE_EQ(learning_rate(s, 9), 1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 10), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 29), 0.25);
}

TEST(Schedule, NdpipeHasItsFiveRates) {
  const Schedule s{.kind = ScheduleKind::kNdpipe, .lr = 0.015, .total_steps = 50};
  const double want[] = {0.015, 0.012, 0.0075, 0.0045, 0.0015};
  for (int64_t step = 0; step < 50; ++step) {
    EXPECT_NEAR(learning_rate(s, step), want[step / 10], 1e-15) << "step " << step;
  }
  EXPECT_NEAR(learning_rate(s, 50), 0.0015, 1e-15);
}

TEST(Schedule, TheFivePartsAreOfWhatFollowsWarmUp) {
  const Schedule s{.kind = ScheduleKind::kNdpipe, .lr = 1, .warmup_steps = 10, .total_steps = 60};
  EXPECT_DOUBLE_EQ(learning_rate(s, 19), 1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 20), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(s, 59), 0.1);
}

TEST(Schedule, ATrainingShorterThanFivePartsIsFine) {
  const Schedule s{.kind = ScheduleKind::kNdpipe, .lr = 1, .total_steps = 2};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1), 0.5);
}

TEST(Schedule, PolynomialIsTheSquareOfWhatIsLeft) {
  const Schedule s{.kind = ScheduleKind::kPolynomial, .lr = 0.8, .total_steps = 40};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1), 0.8 * 39 * 39 / 1600);
  EXPECT_DOUBLE_EQ(learning_rate(s, 10), 0.45);
  EXPECT_DOUBLE_EQ(learning_rate(s, 20), 0.2);
  EXPECT_NEAR(learning_rate(s, 39), 0.8 / 1600, 1e-15);
  EXPECT_EQ(learning_rate(s, 40), 0);
  EXPECT_EQ(learning_rate(s, 400), 0);
}

TEST(Schedule, ExponentialFallsAtEachStepByItsPartOfAnEpoch) {
  const Schedule s{
      .kind = ScheduleKind::kExponential, .lr = 0.5, .total_steps = 40, .steps_per_epoch = 10};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 5), 0.5 * std::sqrt(0.97));
  EXPECT_DOUBLE_EQ(learning_rate(s, 10), 0.5 * 0.97);
  EXPECT_DOUBLE_EQ(learning_rate(s, 30), 0.5 * 0.97 * 0.97 * 0.97);
  EXPECT_DOUBLE_EQ(learning_rate(s, 35), 0.5 * 0.97 * 0.97 * 0.97 * std::sqrt(0.97));
  for (int64_t step = 1; step <= 60; ++step) {
    EXPECT_NEAR(learning_rate(s, step) / learning_rate(s, step - 1), std::pow(0.97, 0.1), 1e-14);
  }
}

TEST(Schedule, PolynomialAndExponentialBeginAfterWarmUp) {
  Schedule s{.kind = ScheduleKind::kPolynomial,
             .lr = 0.8,
             .warmup_steps = 4,
             .total_steps = 24,
             .steps_per_epoch = 8};
  for (const ScheduleKind kind : {ScheduleKind::kPolynomial, ScheduleKind::kExponential}) {
    s.kind = kind;
    for (int64_t step = 0; step < 4; ++step) {
      EXPECT_DOUBLE_EQ(learning_rate(s, step), 0.2 * static_cast<double>(step + 1));
    }
    EXPECT_DOUBLE_EQ(learning_rate(s, 4), 0.8);
  }
  EXPECT_DOUBLE_EQ(learning_rate(s, 8), 0.8 * std::sqrt(0.97));
  EXPECT_DOUBLE_EQ(learning_rate(s, 12), 0.8 * 0.97);
  EXPECT_DOUBLE_EQ(learning_rate(s, 20), 0.8 * 0.97 * 0.97);
  s.kind = ScheduleKind::kPolynomial;
  EXPECT_DOUBLE_EQ(learning_rate(s, 14), 0.2);
  EXPECT_NEAR(learning_rate(s, 23), 0.8 / 400, 1e-15);
}

TEST(Schedule, FollowsTheLengthOfATrainingWhereItsRatesDo) {
  for (const auto& [kind, name] : kSchedules) {
    const Schedule s{.kind = kind, .lr = 1, .total_steps = 60, .steps_per_epoch = 10};
    Schedule longer = s;
    longer.total_steps = 120;
    EXPECT_EQ(learning_rate(s, 50) != learning_rate(longer, 50), follows_length(kind)) << name;
  }
}

TEST(Schedule, NamesAreKnown) {
  for (const auto& [kind, name] : kSchedules) EXPECT_EQ(schedule_named(name), kind);
  EXPECT_EQ(schedule_named("cosine"), ScheduleKind::kCosine);
  EXPECT_EQ(schedule_named("ndpipe"), ScheduleKind::kNdpipe);
  EXPECT_THROW(schedule_named("cosinus"), Error);
}

TEST(Warmup, IsOfNoLessThanNoEpochs) {
  for (const double epochs : {-1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_THROW((TrainerConfig{.warmup_epochs = epochs}.check()), Error) << epochs;
  }
  EXPECT_NO_THROW((TrainerConfig{.warmup_epochs = 0.5}.check()));
}

}  // namespace
}  // namespace ndtrain
