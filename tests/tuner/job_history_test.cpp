// Which jobs that are over are kept, and what of them.
#include "tuner/service/job_history.h"

#include <gmock/gmock.h>

#include <optional>

#include "framework/core/fsync.h"
#include "framework/core/rng.h"
#include "framework/testing/memory_fs.h"
#include "tests/support/waiting_lanes.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using support::WaitingLanes;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class JobHistoryTest : public ::testing::Test {
 protected:
  void add(uint64_t id, JobState state, const std::string& result = "{}") {
    const JobRecord job{.id = id, .spec = {}, .state = state, .message = "", .result = result};
    ASSERT_TRUE(records_.save(job).ok());
    records_.put(job);
    for (const char* name :
         {"manifest.cbor", "log.txt", "run/model.onnx", "run/metrics.jsonl",
          "run/model.onnx.0123456789abcdef.data", "run/best.safetensors", "survey/spool/1"}) {
      write(records_.files(id).directory() + "/" + name);
    }
  }
  void write(const std::string& path) {
    ASSERT_TRUE(fs_.make_directories(path.substr(0, path.rfind('/'))).ok());
    const auto file = fs_.open(path, Fs::Mode::kAppend).or_throw();
    ASSERT_TRUE(file->append(std::as_bytes(std::span("x", 1))).ok());
  }
  bool is_there(const std::string& path) { return fs_.info("jobs/" + path).ok(); }
  std::vector<uint64_t> kept(const JobRecords& records) const {
    std::vector<uint64_t> ids;
    for (const auto& [id, job] : records.all()) ids.push_back(id);
    return ids;
  }
  void pump() {
    history_.pump();
    lanes_.run();
  }

  JobHistory& history_of(JobRecords& records) {
    other_.emplace(JobHistory::Ports{.lanes = lanes_,
                                     .records = records,
                                     .versions = versions_,
                                     .kept = 2,
                                     .gone = [](uint64_t) {}});
    return *other_;
  }

  std::optional<JobHistory> other_;
  MemoryFs fs_;
  WaitingLanes lanes_;
  JobRecords records_{fs_, "jobs"};
  Versions versions_{fs_, "versions.json"};
  std::vector<uint64_t> gone_;
  JobHistory history_{{.lanes = lanes_,
                       .records = records_,
                       .versions = versions_,
                       .kept = 2,
                       .gone = [this](uint64_t job) { gone_.push_back(job); }}};
};

TEST_F(JobHistoryTest, TheNewestAreKeptAndOfOthersNothingIs) {
  add(1, JobState::kDone);
  add(2, JobState::kFailed);
  pump();
  EXPECT_THAT(gone_, IsEmpty());
  add(3, JobState::kPaused);
  add(4, JobState::kCancelled);
  add(5, JobState::kQueued);
  pump();
  EXPECT_THAT(gone_, ElementsAre(1));
  EXPECT_THAT(kept(records_), ElementsAre(2, 3, 4, 5));
  EXPECT_FALSE(is_there("1"));
  EXPECT_TRUE(is_there("2/manifest.cbor"));
  EXPECT_THAT(kept(JobRecords(fs_, "jobs")), ElementsAre(2, 3, 4, 5)) << "and after a restart";
}

TEST_F(JobHistoryTest, WhatPeopleSaidSomethingOfStays) {
  for (uint64_t id = 1; id <= 5; ++id) add(id, JobState::kDone);
  records_.at(1).notes.name = "before the move";
  records_.at(2).notes.tags = {"paper"};
  records_.at(3).readable = false;  // a person may mend it
  pump();
  EXPECT_THAT(kept(records_), ElementsAre(1, 2, 3, 4, 5));
  records_.at(2).notes = {};
  add(6, JobState::kDone);
  pump();
  EXPECT_THAT(kept(records_), ElementsAre(1, 3, 5, 6));
}

TEST_F(JobHistoryTest, TheJobOfAVersionStaysAndItsModelsGoWithIt) {
  for (uint64_t id = 1; id <= 4; ++id) {
    PublishedModel model;
    model.job = id;
    const uint64_t version = versions_.add(model, true).or_throw().version;
    add(id, JobState::kDone, R"({"version":)" + std::to_string(version) + "}");
  }
  add(5, JobState::kDone);
  pump();
  EXPECT_THAT(gone_, IsEmpty());
  ASSERT_TRUE(versions_.remove(3).ok());
  pump();
  EXPECT_TRUE(is_there("3/run/model.onnx")) << "nobody said that a version was removed";
  history_.version_removed();
  history_.pump();
  lanes_.run();
  EXPECT_THAT(gone_, ElementsAre(3));

  JobHistory more({.lanes = lanes_,
                   .records = records_,
                   .versions = versions_,
                   .kept = 9,
                   .gone = [](uint64_t) { FAIL(); }});
  ASSERT_TRUE(versions_.remove(2).ok());
  more.version_removed();
  more.pump();
  lanes_.run();
  for (const char* name :
       {"run/model.onnx", "run/model.onnx.0123456789abcdef.data", "run/best.safetensors"}) {
    EXPECT_FALSE(is_there(std::string("2/") + name)) << name;
    EXPECT_TRUE(is_there(std::string("4/") + name)) << name;
  }
  for (const char* name : {"run/metrics.jsonl", "manifest.cbor", "job.json"}) {
    EXPECT_TRUE(is_there(std::string("2/") + name)) << name;
  }
}

TEST_F(JobHistoryTest, ManyGoInPartsSoThatOthersHaveTheirTurn) {
  for (uint64_t id = 1; id <= 50; ++id) add(id, JobState::kDone);
  history_.pump();
  EXPECT_EQ(lanes_.tasks.size(), 1U);
  EXPECT_THAT(records_.all().size(), ::testing::Gt(20U));
  history_.pump();
  EXPECT_EQ(lanes_.tasks.size(), 1U) << "one part at a time";
  for (int i = 0; i < 8; ++i) pump();
  EXPECT_THAT(kept(records_), ElementsAre(49, 50));
  EXPECT_EQ(gone_.size(), 48U);
}

// Its record goes last, so that what a crash leaves of it is a job, and goes the next time.
TEST_F(JobHistoryTest, WhatACrashLeavesOfARemovalGoesAfterIt) {
  struct Dead {};
  const FsyncHandler before = set_fsync_handler([](const std::string&) { throw Dead(); });
  int64_t whole = 0;
  for (int64_t n = 1; whole == 0; ++n) {
    for (uint64_t id = 1; id <= 3; ++id) add(id, JobState::kDone);
    JobRecords records(fs_, "jobs");
    const int64_t calls = fs_.mutating_calls();
    fs_.fail_call(n);
    try {
      history_of(records).pump();
      lanes_.run();
    } catch (const Dead&) {
      lanes_.tasks.clear();
    }
    if (fs_.mutating_calls() - calls < n) whole = n;
    Rng rng(static_cast<uint64_t>(n));
    fs_.crash(rng);
    JobRecords again(fs_, "jobs");
    EXPECT_EQ(is_there("1"), again.all().contains(1)) << n;
    history_of(again).pump();
    lanes_.run();
    EXPECT_FALSE(is_there("1")) << n;
    EXPECT_THAT(kept(again), ElementsAre(2, 3)) << n;
  }
  EXPECT_GT(whole, 8);
  set_fsync_handler(before);
}

}  // namespace
}  // namespace ndtrain::tuner
