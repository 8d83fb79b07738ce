#include "ndp/jobs/run_summary.h"

#include <gmock/gmock.h>

#include "framework/core/json.h"
#include "framework/core/publish.h"
#include "framework/testing/memory_fs.h"

namespace ndtrain::ndp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunSummaryTest : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    fs_.make_directories(parent_of(path)).or_throw();
    publish(fs_, path, text).or_throw();
  }
  void put_run(const std::string& directory, Settings asked) {
    put(directory + "/args.toml", to_toml({.asked = std::move(asked), .version = "1"}));
  }
  static std::string epoch(int n, double top1) {
    return json_text(to_json(EpochRow{.epoch = n,
                                      .train_top5 = std::nullopt,
                                      .val = EpochRow::Validation{.top1 = top1}})) +
           "\n";
  }
  RunSummary run(const std::string& path) { return read_run(fs_, path).or_throw(); }

  MemoryFs fs_;
};

TEST_F(RunSummaryTest, TheBestEpochIsTheFirstWithTheHighestTop1) {
  put_run("r", {{"epochs", "4"}, {"model", "m.onnx"}});
  put("r/metrics.jsonl", epoch(1, 0.5) + epoch(2, 0.75) + epoch(3, 0.75) + "{\"epoch\":4,");
  const RunSummary r = run("r");
  EXPECT_EQ(r.epochs.size(), 3U);
  EXPECT_EQ(r.best->epoch, 2);
  EXPECT_EQ(r.epochs_asked, 4);
  EXPECT_EQ(r.model(), "m.onnx");
  EXPECT_EQ(r.state, RunState::kInterrupted);
}

TEST_F(RunSummaryTest, OneThatWasAskedForMoreEpochsIsNotDone) {
  put("r/model.onnx", "");
  put("r/metrics.jsonl", epoch(1, 0.5) + epoch(2, 0.25) + epoch(3, 0.25));
  put_run("r", {{"epochs", "3"}});
  EXPECT_EQ(run("r").state, RunState::kDone);
  put_run("r", {{"epochs", "9"}});
  EXPECT_EQ(run("r").state, RunState::kInterrupted);
  put_run("r", {{"epochs", "9"}, {"patience", "2"}});
  EXPECT_EQ(run("r").state, RunState::kDone) << "it lost patience";
  put_run("r", {{"epochs", "9"}, {"patience", "3"}});
  EXPECT_EQ(run("r").state, RunState::kInterrupted);
}

TEST_F(RunSummaryTest, OneThatTrainsHasItsLock) {
  put_run("r", {{"epochs", "1"}});
  put("r/lock", "");
  EXPECT_EQ(run("r").state, RunState::kInterrupted);
  const auto file = fs_.open("r/lock", Fs::Mode::kAppend).or_throw();
  file->lock().or_throw();
  EXPECT_EQ(run("r").state, RunState::kTraining);
}

TEST_F(RunSummaryTest, OfAJobHasTheSpecAsSettingsAndTheJobsNotes) {
  put("s/jobs/7/run/args.toml", "job = 7\n");
  put("s/jobs/7/run/job.json",
      R"({"kind":"finetune","model":"0123456789abcdef","runs":3,"epochs":2,"weight_decay":0.5})");
  put("s/jobs/7/run/metrics.jsonl", epoch(1, 0.5));
  write_notes(fs_, "s/jobs/7", {.name = "roses", .note = {}, .tags = {}}).or_throw();
  const RunSummary r = run("s/jobs/7/run");
  EXPECT_EQ(r.job, 7U);
  EXPECT_EQ(r.notes.name, "roses");
  EXPECT_EQ(r.epochs_asked, 6);
  EXPECT_EQ(r.model(), "0123456789ab");
  EXPECT_EQ(r.settings.text("weight-decay"), "0.5");
  EXPECT_THAT(find_runs(fs_, "s"), ElementsAre("s/jobs/7/run"));
}

TEST_F(RunSummaryTest, AreFoundBelowButNotInsideEachOther) {
  put_run("d/b", {});
  put_run("d/a/c", {});
  put_run("d/b/inside", {});
  put_run("d/.hidden/x", {});
  put("d/photos/1.jpg", "");
  EXPECT_THAT(find_runs(fs_, "d"), ElementsAre("d/a/c", "d/b"));
  EXPECT_THAT(find_runs(fs_, "d/b"), ElementsAre("d/b"));
  EXPECT_THAT(find_runs(fs_, "d/photos"), IsEmpty());
  EXPECT_THROW(find_runs(fs_, "nowhere"), Error);
}

TEST_F(RunSummaryTest, WhatIsNoRunOrNotWholeIsNamed) {
  put("p/1.jpg", "");
  EXPECT_EQ(read_run(fs_, "p").status().code(), Code::kNotFound);
  put("r/args.toml", "lr = \"1\"\n");
  EXPECT_THAT(read_run(fs_, "r").status().message(), HasSubstr("r/args.toml is of an older"));
  put_run("r", {{"epochs", "1"}});
  for (const char* text : {"x,a\na,1\n", "truth,a,b\na,1,2\n", "truth,a,b\na,1,2\nc,1,2\n",
                           "truth,a\na,1,2\n", "truth,a\na,1\na,1\n", ""}) {
    put("r/confusion.csv", text);
    EXPECT_THAT(read_run(fs_, "r").status().message(), HasSubstr("r/confusion.csv: line ")) << text;
  }
  put("r/confusion.csv", "truth,a,\"b,c\"\na,3,1\n\"b,c\",0,4\n");
  EXPECT_THAT(run("r").confusion, ElementsAre(3, 1, 0, 4));
  EXPECT_THAT(run("r").classes, ElementsAre("a", "b,c"));
}

}  // namespace
}  // namespace ndtrain::ndp
