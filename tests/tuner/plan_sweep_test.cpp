#include "tuner/plan/plan_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "framework/core/error.h"
#include "tests/tuner/plan_fixture.h"

namespace ndtrain::tuner {
namespace {

using namespace testing_plan;

TEST(PlanSweep, ComparesTheFastestOfBothSides) {
  PlanInputs in = one_second_photos(640);
  in.costs.store.dollars_per_hour = 1;
  in.costs.tuner.dollars_per_hour = 2;
  constexpr std::array stores = {1, 2, 4};
  constexpr std::array bandwidths = {kNoLimit};
  const auto points = sweep(in, stores, bandwidths);
  ASSERT_EQ(points.size(), 3u);
  for (const SweepPoint& p : points) {
    EXPECT_NEAR(p.faster, p.stores, 1e-9);  // the stores share what one Tuner does alone
    EXPECT_NEAR(p.cheaper, p.stores, 1e-9);
    EXPECT_EQ(p.ndpipe.mode, JobMode::kNdpipe);
    EXPECT_NE(p.other.mode, JobMode::kIdeal);
  }
}

TEST(PlanSweep, BandwidthDecidesWhereTheLinkIsNarrow) {
  PlanInputs in = one_second_photos(640);
  in.costs.photo.prepare_s = in.costs.cuts[0].extract_s = 0;
  constexpr std::array stores = {3};
  constexpr std::array bandwidths = {kThousandBytesPerSecond, 10 * kThousandBytesPerSecond};
  const auto points = sweep(in, stores, bandwidths);
  ASSERT_EQ(points.size(), 2u);
  const double ratio = (2000 + 40.0) / (1000 + 40);  // photos against features
  EXPECT_NEAR(points[0].faster, ratio, 1e-9);
  EXPECT_NEAR(points[1].faster, ratio, 1e-9);
  EXPECT_EQ(points[0].cheaper, 0);  // no prices
  EXPECT_NEAR(points[0].other.time.makespan_s, 10 * points[1].other.time.makespan_s, 1e-6);
}

TEST(PlanSweep, VariesEachAssumedInputAndNoOther) {
  Profile p;
  p.inputs = one_second_photos(640);
  p.inputs.stores = {2};
  p.inputs.costs.cuts.push_back(p.inputs.costs.cuts[0]);
  CutCost &one = p.inputs.costs.cuts[0], &two = p.inputs.costs.cuts[1];
  p.set(one.extract_s, 0.75, "assumed");
  p.set(two.extract_s, 0.75, "assumed: as the other");
  p.set(p.inputs.costs.photo.prepare_s, 0.25, "measured");
  p.set(p.inputs.costs.tuner.core_speed, 1, "assumed");
  const auto all = sensitivities(p);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].input, "tuner/core_speed");
  EXPECT_NEAR(all[0].half.faster, 4, 1e-9);
  EXPECT_NEAR(all[0].twice.faster, 1, 1e-9);
  EXPECT_EQ(all[1].input, "cuts/*/extract_s");  // of both cuts, on both sides alike
  EXPECT_NEAR(all[1].half.faster, 2, 1e-9);
  EXPECT_NEAR(all[1].half.ndpipe.time.makespan_s, 320 * (0.25 + 0.375), 1e-9);
  EXPECT_NEAR(all[1].twice.ndpipe.time.makespan_s, 320 * (0.25 + 1.5), 1e-9);
}

TEST(PlanSweep, WithoutACutThereIsNothingToCompare) {
  PlanInputs in = one_second_photos(10);
  in.costs.cuts[0].feature_bytes = 0;
  EXPECT_THROW(compare(in), Error);
  in = one_second_photos(10);
  in.stores = {1, 2};
  EXPECT_THROW(compare(in), Error);
}

}  // namespace
}  // namespace ndtrain::tuner
