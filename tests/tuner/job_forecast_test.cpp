#include "tuner/plan/job_forecast.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
