// What a job reports of energy.
#include "tuner/jobs/job_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ndtrain::tuner {

namespace {

using std::chrono::seconds;

TEST(JobReport, EnergyIsOfEachStageAndOfAll) {
  JobReport r;
  r.begin(seconds(0));
  r.photos(100, 0);
  r.waited(7.0);
  r.work("run 1", seconds(1), seconds(3), 30.0);
  r.work("finish", seconds(3), seconds(4), 3.0);
  wire::RunDone done;
  done.set_run(1);
  done.set_photos(80);
  done.set_joules(20);
  r.run_done("attic", done);
  r.end(seconds(5));
  const auto json = nlohmann::json::parse(r.json());
  EXPECT_EQ(json.at("work")[0].at("joules"), 30.0);
  EXPECT_EQ(json.at("work")[1].at("joules"), 3.0);
  EXPECT_EQ(json.at("tuner_joules"), 40.0);
  EXPECT_EQ(json.at("tuner_photos_per_joule"), 2.5);
  EXPECT_EQ(json.at("stores").at("attic").at("joules"), 20.0);
  EXPECT_EQ(json.at("stores").at("attic").at("photos_per_joule"), 4.0);
}

TEST(JobReport, WithoutCountersNothingIsSaidOfEnergy) {
  JobReport r;
  r.begin(seconds(0));
  r.waited({});
  r.work("run 1", seconds(1), seconds(3));
  r.run_done("attic", wire::RunDone());
  r.end(seconds(5));
  EXPECT_EQ(r.json().find("joule"), std::string::npos) << r.json();
}

}  // namespace
}  // namespace ndtrain::tuner
