#include "tuner/plan/job_forecast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "framework/core/rng.h"
#include "tuner/plan/timeline.h"

namespace ndtrain::tuner {
namespace {

// 100 photos in 50 s of one store's work, and 5 epochs over 80 of them in 40 s; 3 s at the end, 7 s
// before the first row.
JobRecord done(uint64_t id) {
  JobRecord r;
  r.id = id;
  r.state = JobState::kDone;
  r.spec.model = std::string(64, 'a');
  r.spec.trainer.epochs = 5;
  r.result = nlohmann::json{{"train_photos", 80},
                            {"epochs", 5},
                            {"report",
                             {{"photos", 100},
                              {"overall_s", 7 + 50 + 40 + 3},
                              {"row_bytes", 20000},
                              {"stores", {{"attic", {{"photos", 100}, {"busy_s", 50}}}}},
                              {"work",
                               {{{"what", "prepare"}, {"from_s", 10}, {"to_s", 10}},
                                {{"what", "run 1"}, {"from_s", 57}, {"to_s", 97}},
                                {{"what", "finish"}, {"from_s", 97}, {"to_s", 100}}}}}}}
                 .dump();
  return r;
}

class JobForecast : public ::testing::Test {
 protected:
  JobForecast() { jobs_[1] = done(1); }
  static ForecastSetting setting(double photos) {
    return {.photos = photos, .stores = {.stores = {"attic"}, .enough = 1}};
  }
  double overall(const JobSpec& spec, const ForecastSetting& s) const {
    return forecast(spec, s, jobs_).value().stages.at("overall_s");
  }
  std::map<uint64_t, JobRecord> jobs_;
};

TEST_F(JobForecast, OfTheSameJobIsWhatItTook) {
  const Forecast f = forecast(jobs_[1].spec, setting(100), jobs_).value();
  EXPECT_EQ(f.by, 1U);
  EXPECT_EQ(f.stores, std::vector<std::string>{"attic"});
  EXPECT_NEAR(f.stages.at("overall_s"), 100, 1e-6);
  EXPECT_NEAR(f.stages.at("feature_extraction_s"), 50, 1e-6);
  EXPECT_NEAR(f.stages.at("tuner_busy_s"), 43, 1e-6);
  EXPECT_NEAR(f.stages.at("row_bytes"), 20000, 1e-6);
}

TEST_F(JobForecast, GoesByTheEpochsPhotosStoresLinksAndKeptFeaturesOfTheNewOne) {
  JobSpec spec = jobs_[1].spec;
  spec.trainer.epochs = 10;
  EXPECT_NEAR(overall(spec, setting(100)), 7 + 50 + 80 + 3, 1e-6);
  EXPECT_NEAR(overall(spec, setting(200)), 7 + 100 + 160 + 3, 1e-6);
  ForecastSetting two = setting(200);
  two.stores = {.stores = {"b", "a"}, .enough = 1};
  const Forecast f = forecast(spec, two, jobs_).value();
  EXPECT_EQ(f.stores, (std::vector<std::string>{"a", "b"}));
  EXPECT_NEAR(f.stages.at("overall_s"), 7 + 50 + 160 + 3, 1e-6);
  ForecastSetting kept = setting(100);
  kept.kept = 100;
  EXPECT_NEAR(overall(spec, kept), 7 + 80 + 3, 1e-6);
}

TEST_F(JobForecast, GoesByTheStoreWithTheMostPhotos) {
  ForecastSetting uneven = setting(200);
  uneven.stores = {.stores = {"a", "b"}, .enough = 2, .photos = {150, 50}};
  EXPECT_NEAR(overall(jobs_[1].spec, uneven), 7 + 75 + 80 + 3, 1e-6);
  // What was uneven then took as long as its larger part, and is no time before the first row.
  JobRecord& then = jobs_[1];
  nlohmann::json result = nlohmann::json::parse(then.result);
  result["report"]["stores"] = {{"a", {{"photos", 75}, {"busy_s", 37.5}}},
                                {"b", {{"photos", 25}, {"busy_s", 12.5}}}};
  result["report"]["overall_s"] = 7 + 37.5 + 40 + 3;
  then.result = result.dump();
  EXPECT_NEAR(overall(then.spec, setting(100)), 7 + 50 + 40 + 3, 1e-6) << "by one store again";
}

TEST_F(JobForecast, GoesByWhatEachStoreTookForAPhoto) {
  JobRecord& then = jobs_[1];
  nlohmann::json result = nlohmann::json::parse(then.result);
  result["report"]["stores"] = {{"a", {{"photos", 60}, {"busy_s", 20}}},
                                {"b", {{"photos", 40}, {"busy_s", 40}}}};
  result["report"]["overall_s"] = 7 + 40 + 40 + 3;
  then.result = result.dump();
  const auto of = [&](StoreCover stores, double photos) {
    return overall(then.spec, {.photos = photos, .stores = std::move(stores)});
  };
  EXPECT_NEAR(of({.stores = {"a", "b"}, .enough = 2, .photos = {60, 40}}, 100), 90, 1e-6);
  EXPECT_NEAR(of({.stores = {"a", "b"}, .enough = 2, .photos = {50, 50}}, 100), 100, 1e-6)
      << "each photo once: the slow one has 50 s to do";
  EXPECT_NEAR(of({.stores = {"b", "a"}, .enough = 1, .photos = {100, 100}, .distinct = 100}, 200),
              7 + 25 + 40 + 3, 1e-6)
      << "copies: three photos here for each one there";
  EXPECT_NEAR(of({.stores = {"a"}, .enough = 1, .photos = {30}}, 30), 7 + 10 + 12 + 3, 1e-6);
  EXPECT_NEAR(of({.stores = {"new"}, .enough = 1, .photos = {50}}, 50), 7 + 30 + 20 + 3, 1e-6)
      << "their mean";
}

struct ForecastStore {
  double photos, seconds, link;  // seconds of a photo; bytes/s
};

// One photo after the other, of stores that work at the same time: when the last row is here.
double serially(const std::vector<ForecastStore>& stores, double row_bytes, double tuner_link) {
  std::vector<double> ready;
  for (const ForecastStore& s : stores) {
    double made = 0, sent = 0;
    for (int i = 0; i < static_cast<int>(s.photos); ++i) {
      made += s.seconds;
      sent = std::max(sent, made) + row_bytes / s.link;
      ready.push_back(sent);
    }
  }
  std::ranges::sort(ready);
  double here = 0;
  for (const double r : ready) here = std::max(here, r) + row_bytes / tuner_link;
  return here;
}

TEST_F(JobForecast, EachStoreWaitsForItsOwnLink) {
  Rng rng(4, "links");
  const auto draw = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(rng.next_below(1000)) / 1000;
  };
  JobRecord& then = jobs_[1];
  nlohmann::json result = nlohmann::json::parse(then.result);
  result["report"]["row_bytes"] = 2e6;
  result["report"]["overall_s"] = 1;  // nothing comes before the first row
  int far_off = 0;
  for (int round = 0; round < 50; ++round) {
    // Rows of 20 KB; a store's link may be slower than it works, or faster.
    const std::vector<ForecastStore> stores = {
        {std::floor(draw(1000, 4000)), draw(0.2, 1), draw(3e4, 4e5)},
        {std::floor(draw(1000, 4000)), draw(0.2, 1), draw(1e4, 1e5)}};
    const double photos = stores[0].photos + stores[1].photos;
    result["report"]["stores"] = {{"a", {{"photos", 60}, {"busy_s", 60 * stores[0].seconds}}},
                                  {"b", {{"photos", 40}, {"busy_s", 40 * stores[1].seconds}}}};
    then.result = result.dump();
    const std::map<std::string, double> links = {{"a", stores[0].link}, {"b", stores[1].link}};
    const auto seconds = [&](const std::map<std::string, double>& by) {
      const ForecastSetting s{.photos = photos,
                              .stores = {.stores = {"b", "a"},
                                         .enough = 2,
                                         .photos = {stores[1].photos, stores[0].photos}},
                              .links = by};
      return forecast(then.spec, s, jobs_).value().stages;
    };
    const auto stages = seconds(links);
    const double rest = stages.at("tuner_busy_s");
    const double fastest = std::max(stores[0].link, stores[1].link);
    const double rows = serially(stores, 20'000 * kWireOverhead, fastest);
    EXPECT_NEAR(stages.at("overall_s") - rest, rows, 0.04 * rows + 30)
        << "round " << round << ": the lists of photos take seconds, pieces are of many rows";
    const double slowest = std::min(stores[0].link, stores[1].link);
    far_off += seconds({{"a", slowest}, {"b", slowest}}).at("overall_s") - rest > 1.2 * rows;
  }
  EXPECT_GT(far_off, 10) << "as if all had the slowest link";
}

TEST_F(JobForecast, AStoreWhoseLinkIsNotMeasuredHasTheSlowest) {
  const auto of = [&](const std::map<std::string, double>& links) {
    return overall(jobs_[1].spec,
                   {.photos = 1000, .stores = {.stores = {"a", "b"}, .enough = 2}, .links = links});
  };
  EXPECT_EQ(of({{"a", 5000}, {"attic", 50}}), of({{"a", 5000}, {"attic", 50}, {"b", 50}}));
  EXPECT_GT(of({{"a", 5000}, {"b", 50}}), 1.2 * of({{"a", 5000}, {"b", 5000}}));
}

TEST_F(JobForecast, SpeedsAreOfTheLastJobThatAnyOfTheStoresHasWorkedIn) {
  EXPECT_EQ(measured_speeds({"attic"}, jobs_), std::vector<double>{1});
  EXPECT_EQ(measured_speeds({"a", "b"}, jobs_), std::vector<double>());
  jobs_[2] = done(2);
  jobs_[2].spec.model = std::string(64, 'b');
  nlohmann::json result = nlohmann::json::parse(jobs_[2].result);
  result["report"]["stores"] = {{"a", {{"photos", 60}, {"busy_s", 20}}},
                                {"b", {{"photos", 40}, {"busy_s", 40}}}};
  jobs_[2].result = result.dump();
  const auto speeds = measured_speeds({"b", "new", "a"}, jobs_);
  ASSERT_EQ(speeds.size(), 3U);
  EXPECT_NEAR(speeds[0], 0.6, 1e-12);
  EXPECT_EQ(speeds[1], 1);
  EXPECT_NEAR(speeds[2], 1.8, 1e-12);
  jobs_[2].state = JobState::kFailed;
  EXPECT_EQ(measured_speeds({"a", "b"}, jobs_), std::vector<double>());
}

TEST_F(JobForecast, IsOfNoJobWhosePhotosCostAnythingElse) {
  JobSpec spec = jobs_[1].spec;
  spec.trainer.schedule.lr *= 2;
  spec.seed = 9;
  EXPECT_TRUE(forecast(spec, setting(100), jobs_)) << "these cost nothing";
  spec.freeze = "layer1";
  EXPECT_FALSE(forecast(spec, setting(100), jobs_));
  spec = jobs_[1].spec;
  spec.mode = JobMode::kTypical;
  EXPECT_FALSE(forecast(spec, setting(100), jobs_));
  EXPECT_FALSE(forecast(jobs_[1].spec, setting(0), jobs_)) << "there are no photos";
  jobs_[1].state = JobState::kFailed;
  EXPECT_FALSE(forecast(jobs_[1].spec, setting(100), jobs_));
  jobs_[1] = done(1);
  jobs_[1].result = R"({"train_photos": 80, "report": {"photos": 100, "stores": {}}})";
  EXPECT_FALSE(forecast(jobs_[1].spec, setting(100), jobs_)) << "all of its features were kept";
}

TEST_F(JobForecast, IsOfJobsWithAsManyViews) {
  JobSpec spec = jobs_[1].spec;
  spec.views = 3;
  EXPECT_FALSE(forecast(spec, setting(100), jobs_));
  jobs_[1].spec.views = 3;
  EXPECT_NEAR(overall(spec, setting(100)), 100, 1e-6);
}

}  // namespace
}  // namespace ndtrain::tuner
