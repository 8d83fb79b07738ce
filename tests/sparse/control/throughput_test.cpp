#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/error.h"
#include "framework/core/rng.h"
#include "framework/sparse/control/throughput_model.h"
#include "framework/sparse/control/throughput_samples.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

// Written apart from the code: linear up to alpha rows, then flat.
double rows_per_s(double alpha, double beta, double x) {
  return x < alpha ? beta * x / alpha : beta;
}

std::vector<ThroughputPoint> measured(double alpha, double beta, double noise, uint64_t seed = 1) {
  const Rng rng(seed, "noise");
  std::vector<ThroughputPoint> points;
  for (int64_t batch = 8; batch <= 512; batch = batch * 3 / 2) {
    const auto x = static_cast<double>(batch);
    points.push_back({.batch = x,
                      .rows_per_s = rows_per_s(alpha, beta, x) *
                                    (1 + noise * rng.normal(static_cast<uint64_t>(batch)))});
  }
  return points;
}

TEST(ThroughputModel, IsLinearUpToAlphaAndThenFlat) {
  const ThroughputModel f{.alpha = 40, .beta = 200};
  EXPECT_DOUBLE_EQ(f.rows_per_s(10), 50);
  EXPECT_DOUBLE_EQ(f.rows_per_s(40), 200);
  EXPECT_DOUBLE_EQ(f.rows_per_s(400), 200);
  for (const double x : {1.0, 10.0, 40.0, 41.0, 400.0}) {
    EXPECT_DOUBLE_EQ(f.backward_s(x), x / f.rows_per_s(x));
  }
}

TEST(FitThroughput, FindsTheModelOfExactPoints) {
  for (const double alpha : {16.0, 21.3, 64.0, 200.0, 450.0}) {
    for (const double beta : {100.0, 312.5, 5000.0}) {
      SCOPED_TRACE(::testing::Message() << alpha << " " << beta);
      const std::vector<ThroughputPoint> points = measured(alpha, beta, 0);
      const ThroughputModel f = fit_throughput(points, {});
      EXPECT_NEAR(f.alpha, alpha, 1e-3 * alpha);
      EXPECT_NEAR(f.beta, beta, 1e-3 * beta);
      EXPECT_LT(relative_error(f, points), 1e-4);
    }
  }
}

TEST(FitThroughput, FindsTheModelOfNoisyPoints) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<ThroughputPoint> points = measured(96, 800, 0.02, seed);
    const ThroughputModel f = fit_throughput(points, {});
    EXPECT_NEAR(f.alpha, 96, 0.08 * 96) << seed;
    EXPECT_NEAR(f.beta, 800, 0.03 * 800) << seed;
    EXPECT_NEAR(relative_error(f, points), 0.02, 0.015) << seed;
  }
}

TEST(FitThroughput, NoOtherPairOfAGridIsBetter) {
  const std::vector<ThroughputPoint> points = measured(70, 400, 0.1, 7);
  const auto squares = [&](double alpha, double beta) {
    double sum = 0;
    for (const ThroughputPoint& p : points) {
      sum += std::pow(rows_per_s(alpha, beta, p.batch) - p.rows_per_s, 2);
    }
    return sum;
  };
  const ThroughputModel f = fit_throughput(points, {});
  double least = INFINITY;
  for (double alpha = 16; alpha < 1024; alpha += 0.25) {
    for (double beta = 300; beta < 500; beta += 0.5) least = std::min(least, squares(alpha, beta));
  }
  EXPECT_LE(squares(f.alpha, f.beta), least * (1 + 1e-9));
}

TEST(FitThroughput, KnowsTheSlopeWhereNothingIsFlatAndStaysWithinItsBounds) {
  std::vector<ThroughputPoint> points;
  for (const double x : {2.0, 4.0, 8.0}) points.push_back({.batch = x, .rows_per_s = 30 * x});
  const ThroughputModel f = fit_throughput(points, {});
  EXPECT_NEAR(f.beta / f.alpha, 30, 1e-3);
  EXPECT_GE(f.alpha, 16);
  // 20 rows/s whatever the batch, which has no such model but with a lower bound.
  for (ThroughputPoint& p : points) p.rows_per_s = 20;
  const ThroughputModel slow = fit_throughput(points, {});
  EXPECT_GE(slow.beta, 100);
  EXPECT_GT(relative_error(slow, points), 0.3);
  const ThroughputModel lower = fit_throughput(points, {}, {.alpha = 1, .beta = 1});
  EXPECT_NEAR(lower.beta, 20, 1e-3);
  EXPECT_LE(lower.alpha, 2 + 1e-3);
}

TEST(FitThroughput, RefusesWhatIsNoThroughput) {
  EXPECT_THROW(fit_throughput({}, {}), Error);
  for (const double bad : {0.0, -1.0, double{NAN}, double{INFINITY}}) {
    const ThroughputPoint points[] = {{1, 1}, {2, bad}}, batches[] = {{1, 1}, {bad, 2}};
    EXPECT_THROW(fit_throughput(points, {}), Error) << bad;
    EXPECT_THROW(fit_throughput(batches, {}), Error) << bad;
  }
}

TEST(ThroughputSamples, LeavesFourStepsOutAndHasAModelAfterFourMore) {
  ThroughputSamples samples;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(samples.add(32, 1e6), "");
  EXPECT_EQ(samples.count(), 0);
  EXPECT_TRUE(samples.means().empty());
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(samples.enough());
    EXPECT_THROW(samples.fit(), Error);
    samples.add(32, 160);  // 200 rows/s
  }
  EXPECT_TRUE(samples.enough());
  ASSERT_EQ(samples.means().size(), 1u);
  EXPECT_DOUBLE_EQ(samples.means()[0].rows_per_s, 200);
  samples.fit();
  EXPECT_NEAR(samples.model().rows_per_s(32), 200, 1e-3);
}

TEST(ThroughputSamples, KeepsAMeanOfEachBatchWithItsMemory) {
  ThroughputSamples samples;
  for (int i = 0; i < 4; ++i) samples.add(1, 1);
  samples.add(10, 100);                                  // 100 rows/s
  samples.add(20, 100);                                  // 200
  samples.add(10, 50);                                   // 200
  EXPECT_DOUBLE_EQ(samples.means()[0].rows_per_s, 110);  // .9 x 100 + .1 x 200
  EXPECT_DOUBLE_EQ(samples.means()[1].rows_per_s, 200);
  samples.set_memory(0.999);
  samples.add(20, 200);  // 100
  EXPECT_DOUBLE_EQ(samples.means()[1].rows_per_s, 199.9);
}

TEST(ThroughputSamples, LeavesOutWhatAJumpingClockSaysButNotARankThatIsAnother) {
  ThroughputSamples samples;
  for (int i = 0; i < 8; ++i) samples.add(32, 160);
  EXPECT_THAT(samples.add(32, 0.001), HasSubstr("batch of 32, where the mean is 200"));
  EXPECT_THAT(samples.add(32, 1e5), HasSubstr("0.32 rows/s"));
  EXPECT_EQ(samples.add(32, 160), "");
  EXPECT_NEAR(samples.means()[0].rows_per_s, 200, 1e-9);
  EXPECT_EQ(samples.count(), 5);
  // Ten times slower from now on: the third in a row is believed, all of it.
  EXPECT_NE(samples.add(32, 1600), "");
  EXPECT_NE(samples.add(32, 1600), "");
  EXPECT_EQ(samples.add(32, 1600), "");
  EXPECT_DOUBLE_EQ(samples.means()[0].rows_per_s, 20);
}

TEST(ThroughputSamples, ForgetsTheBatchNotSeenForLongest) {
  ThroughputSamples samples;
  for (int i = 0; i < 4; ++i) samples.add(1, 1);
  const auto most = static_cast<int64_t>(ThroughputSamples::kBatches);
  for (int64_t batch = 1; batch <= most; ++batch) samples.add(batch, 100);
  samples.add(1, 100);
  samples.add(most + 1, 100);
  const std::vector<ThroughputPoint> means = samples.means();
  ASSERT_EQ(means.size(), ThroughputSamples::kBatches);
  EXPECT_EQ(means[0].batch, 1);
  EXPECT_EQ(means[1].batch, 3);
}

TEST(ThroughputSamples, RefusesWhatIsNoStep) {
  ThroughputSamples samples;
  EXPECT_THROW(samples.add(0, 1), Error);
  for (const double bad : {0.0, -1.0, double{NAN}, double{INFINITY}}) {
    EXPECT_THROW(samples.add(1, bad), Error) << bad;
  }
}

}  // namespace
}  // namespace ndtrain
