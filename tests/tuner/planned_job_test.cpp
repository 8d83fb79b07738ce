#include "tuner/plan/planned_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tuner/plan_fixture.h"

namespace ndtrain::tuner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The features of "early" are a hundredth of the photos and of those of "late"; the network is the
// same work wherever it runs, and nothing else costs anything.
PlanInputs narrow_early() {
  PlanInputs in = testing_plan::one_second_photos(100);
  in.bandwidth = testing_plan::kThousandBytesPerSecond;
  in.costs.cuts = {{.name = "early", .feature_bytes = 20, .extract_s = 0.5},
                   {.name = "late", .feature_bytes = 2000, .extract_s = 0.75}};
  return in;
}

// No rule holds its features to those of the version in force.
JobSpec promoted_always() {
  JobSpec spec;
  spec.promote = Promote::kAlways;
  return spec;
}

TEST(PlannedJob, TakesAnEarlierCutWhereThatIsDoneFirst) {
  const JobSpec s = planned(promoted_always(), narrow_early());
  EXPECT_EQ(s.mode, JobMode::kNdpipe);
  EXPECT_EQ(s.cut, "early");
  EXPECT_THAT(s.why, HasSubstr("ndpipe at early in "));
  EXPECT_THAT(s.why, HasSubstr("is the bottleneck"));
  const JobSpec kept =
      parse_job_spec(R"({"kind":"relabel","why":"because","cut":"early","mode":"ndpipe"})");
  EXPECT_EQ(parse_job_spec(kept.text()).cut, "early");
  EXPECT_EQ(parse_job_spec(kept.text()).why, "because");
}

TEST(PlannedJob, TakesACutThatFitsTheDiskItIsGiven) {
  PlanInputs in = narrow_early();
  std::swap(in.costs.cuts[0].feature_bytes, in.costs.cuts[1].feature_bytes);
  in.bandwidth = testing_plan::kNoLimit;
  JobSpec small = promoted_always();
  small.disk = 100 * (20 + 72);
  EXPECT_EQ(planned(promoted_always(), in).cut, "early");
  EXPECT_EQ(planned(small, in).cut, "");
  small.disk -= 1;
  EXPECT_THROW((void)planned(small, in), Error);
}

TEST(PlannedJob, WithoutALimitOfItsOwnTakesWhatTheTunersDiskHasRoomForAndSaysSo) {
  PlanInputs in = narrow_early();
  std::swap(in.costs.cuts[0].feature_bytes, in.costs.cuts[1].feature_bytes);
  in.bandwidth = testing_plan::kNoLimit;
  EXPECT_THAT(planned(promoted_always(), in).why, Not(HasSubstr("disk")));
  in.disk = 100 * (20 + 72);
  const JobSpec s = planned(promoted_always(), in);
  EXPECT_EQ(s.cut, "");
  EXPECT_EQ(s.disk, 0) << "it may take what is free then";
  EXPECT_THAT(s.why, HasSubstr("on the Tuner's disk it takes 9.2 KB of the 9.2 KB"));
  JobSpec large = promoted_always();
  large.disk = 100 * (2000 + 72);
  EXPECT_EQ(planned(large, in).cut, "early") << "what the job says holds";
}

TEST(PlannedJob, SaysNothingOfTheCutWhereTrainingBegins) {
  PlanInputs in = narrow_early();
  in.costs.cuts.front().train_s = 10;
  in.costs.cuts.back().feature_bytes = 10;
  const JobSpec s = planned(promoted_always(), in);
  EXPECT_EQ(s.cut, "");
  EXPECT_THAT(s.why, HasSubstr("ndpipe at late in "));
}

TEST(PlannedJob, KeepsThatCutWhenAnotherVersionIsToBeJudgedOnTheSameFeatures) {
  EXPECT_EQ(planned({}, narrow_early()).cut, "") << "the rule is the default";
}

}  // namespace
}  // namespace ndtrain::tuner
