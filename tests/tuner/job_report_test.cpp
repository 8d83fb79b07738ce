// What a job reports of rows and of energy.
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

// From its first row to its last a store took as long as the network held it up, and as it made
// rows.
TEST(JobReport, NetworkTimeIsOfEachRunAndItsSlowestStore) {
  JobReport r;
  r.begin(seconds(0));
  const auto rows = [&](const char* store, uint32_t run, int from, int to) {
    r.rows(seconds(from), store, run, 100);
    r.rows(seconds(to), store, run, 50);
  };
  const auto done = [&](const char* store, uint32_t run, double busy) {
    wire::RunDone d;
    d.set_run(run);
    d.set_seconds(busy);
    r.run_done(store, d);
  };
  rows("attic", 1, 1, 11);
  rows("cellar", 1, 2, 6);
  rows("attic", 2, 11, 15);
  EXPECT_TRUE(r.network_seconds().empty()) << "nobody has said how long rows took to make";
  done("attic", 1, 4);
  done("cellar", 1, 1);
  done("attic", 2, 9);
  EXPECT_EQ(r.network_seconds(), (std::map<uint32_t, double>{{1, 6.0}, {2, 0.0}}));
  r.complete(seconds(11), 1);
  r.complete(seconds(15), 2);
  r.end(seconds(16));
  const auto json = nlohmann::json::parse(r.json()).at("complete");
  EXPECT_EQ(json.at(0).at("network_s"), 6.0);
  EXPECT_EQ(json.at(0).at("row_bytes"), 300);
  EXPECT_EQ(json.at(1).at("network_s"), 0.0);
  EXPECT_EQ(json.at(1).at("row_bytes"), 150);
}

TEST(JobReport, BytesOfRowsAreOfTheStoresThatSentThem) {
  JobReport r;
  r.begin(seconds(0));
  r.rows(seconds(1), "attic", 1, 300);
  r.rows(seconds(2), "cellar", 1, 50);
  r.rows(seconds(3), "attic", 2, 200);
  EXPECT_EQ(r.row_bytes_of_stores(),
            (std::map<std::string, uint64_t>{{"attic", 500}, {"cellar", 50}}));
  r.end(seconds(4));
  const auto json = nlohmann::json::parse(r.json());
  EXPECT_EQ(json.at("stores").at("attic").at("row_bytes"), 500);
  EXPECT_EQ(json.at("row_bytes"), 550);
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
