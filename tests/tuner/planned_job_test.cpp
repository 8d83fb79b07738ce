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
  const JobSpec kept = parse_job_spec(R"({"kind":"relabel","why":"because","cut":"early"})");
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

// Four stores, of which each computes as fast as the link carries when all four work.
PlanInputs of_four_stores() {
  PlanInputs in = narrow_early();
  in.costs.cuts = {in.costs.cuts[1]};
  in.photos = 6400;
  in.bandwidth = 4 * 2 * testing_plan::kThousandBytesPerSecond;
  return in;
}

TEST(PlannedJob, IsForAsManyStoresAsMakeItFasterOfThoseThatHaveAllOfIt) {
  const StoreCover cover{.stores = {"d", "b", "c", "a", "e", "f"}, .enough = 2};
  const JobSpec s = planned({}, of_four_stores(), cover);
  ASSERT_EQ(s.stores.names.size(), 4U) << s.why;
  EXPECT_EQ(s.stores.names, (std::vector<std::string>{"a", "b", "c", "d"})) << "in byte order";
  EXPECT_THAT(s.why, HasSubstr("; 4 of 6 stores, which have all of the photos"));
  PlanInputs trains = of_four_stores();
  trains.costs.cuts[0].train_s = 5;  // that is waited for, whoever extracts
  EXPECT_EQ(planned({}, trains, {.stores = {"b", "a", "c"}, .enough = 1}).stores.names.size(), 1U);
}

TEST(PlannedJob, LeavesOutNoStoreThatHasWhatNoOtherHasAndNoneThatWasAskedFor) {
  PlanInputs in = of_four_stores();
  in.bandwidth /= 4;  // one store would be enough for it
  const StoreCover all{.stores = {"a", "b", "c"}, .enough = 3};
  EXPECT_TRUE(planned({}, in, all).stores.all());
  const StoreCover cover{.stores = {"a", "b", "c"}, .enough = 1};
  JobSpec asked;
  asked.stores = 2;
  EXPECT_EQ(planned(asked, in, cover).stores, StoreSelection(2));
  asked.stores = {};
  asked.stores.names = {"b", "c"};
  EXPECT_EQ(planned(asked, in, cover).stores.names, (std::vector<std::string>{"b", "c"}));
}

TEST(PlannedJob, IsAsLateAsTheStoreWithTheMostPhotos) {
  PlanInputs in = of_four_stores();
  in.bandwidth = testing_plan::kNoLimit;
  const auto predicted = [&](std::vector<double> photos) {
    return planned({}, in, {.stores = {"a", "b"}, .enough = 2, .photos = std::move(photos)})
        .predicted.at("feature_extraction_s");
  };
  const double equal = predicted({3200, 3200});
  EXPECT_NEAR(predicted({4800, 1600}), 1.5 * equal, 1e-6 * equal);
  EXPECT_NEAR(predicted({}), equal, 1e-6 * equal) << "not known";
}

TEST(PlannedJob, GoesByTheSpeedOfEachStoreAndCountsCopiesOnce) {
  PlanInputs in = of_four_stores();
  in.bandwidth = testing_plan::kNoLimit;
  const auto predicted = [&](const StoreCover& cover) {
    return planned({}, in, cover).predicted.at("feature_extraction_s");
  };
  StoreCover cover{.stores = {"a", "b"}, .enough = 2, .photos = {3200, 3200}};
  const double equal = predicted(cover);
  cover.speeds = {1, 0.5};
  EXPECT_NEAR(predicted(cover), 2 * equal, 1e-6 * equal) << "each photo once";
  cover.distinct = 3200;
  EXPECT_NEAR(predicted(cover), equal * 2 / 3, 1e-6 * equal) << "half of them, two thirds by a";
}

TEST(PlannedJob, GoesByTheLinkOfEachStore) {
  PlanInputs in = of_four_stores();
  in.bandwidth = testing_plan::kNoLimit;
  StoreCover cover{.stores = {"a", "b"}, .enough = 2, .photos = {3200, 3200}};
  const double slow = in.costs.cuts.back().feature_bytes;  // a row in a second
  const auto predicted = [&] { return planned({}, in, cover).predicted.at("overall_s"); };
  const double without = predicted();
  in.store_bandwidth = slow;
  const double both = predicted();
  EXPECT_GT(both, without);
  in.store_bandwidth = 0;
  in.links = {0, slow};
  EXPECT_NEAR(predicted(), both, 1e-3 * both) << "the slower one is waited for";
  cover.photos = {6300, 100};
  EXPECT_LT(predicted(), 2 * without + 120) << "which has little to send";
}

TEST(StoreCover, IsLookedAtFromWhatIsEnoughToAllInAFewNumbers) {
  const auto counts = [](size_t stores, size_t enough) {
    return counts_of({.stores = std::vector<std::string>(stores, "s"), .enough = enough});
  };
  EXPECT_EQ(counts(0, 0), std::vector<int>());
  EXPECT_EQ(counts(1, 1), std::vector<int>({1}));
  EXPECT_EQ(counts(4, 2), std::vector<int>({2, 3, 4}));
  EXPECT_EQ(counts(3, 3), std::vector<int>({3}));
  const std::vector<int> many = counts(1000, 10);
  EXPECT_EQ(many.size(), 9U);
  EXPECT_EQ(many.front(), 10);
  EXPECT_EQ(many.back(), 1000) << "all need no names, of which one job has 500 at most";
  EXPECT_LE(many[many.size() - 2], 500);
}

// Which would be faster by sending photos, from which the Tuner makes no views.
TEST(PlannedJob, WithViewsIsOneWhoseStoresExtractAndTakesTheirRoom) {
  PlanInputs in = narrow_early();
  in.costs.cuts = {in.costs.cuts.back()};
  in.costs.cuts[0].feature_bytes = 1e6;
  EXPECT_EQ(planned(promoted_always(), in).mode, JobMode::kTypical);
  JobSpec viewed = promoted_always();
  viewed.augmentation.flip = true;
  viewed.views = 4;
  viewed.val_split = 0.2;
  EXPECT_EQ(planned(viewed, in).mode, JobMode::kNdpipe);
  viewed.disk = (20 + 4 * 80) * (1'000'000 + 72) + 1;
  EXPECT_EQ(planned(viewed, in).mode, JobMode::kNdpipe);
  viewed.disk -= 2;
  EXPECT_THROW((void)planned(viewed, in), Error);
}

}  // namespace
}  // namespace ndtrain::tuner
