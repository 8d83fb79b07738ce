#include "ndp/jobs/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/memory_fs.h"
#include "ndp/jobs/tfevents.h"

namespace ndtrain {
namespace {

EpochRow row(int64_t epoch) {
  return {.epoch = epoch,
          .train_loss = 1.0 / static_cast<double>(epoch),
          .val = EpochRow::Validation{.top1 = 0.5}};
}

TEST(RunDirectory, ResumeKeepsEarlierRowsAndDropsATornOne) {
  MemoryFs fs;
  ManualClock clock;
  {
    RunDirectory run(fs, clock, "/run", false);
    run.write("args.toml", "");
    run.add_epoch(row(1));
    run.add_epoch(row(2));
  }
  const std::string before = fs.read("/run/metrics.jsonl").or_throw();
  auto file = fs.open("/run/metrics.jsonl", Fs::Mode::kAppend).or_throw();
  file->append(std::as_bytes(std::span(std::string_view("{\"epoch\": 3, \"tr")))).or_throw();
  file.reset();

  RunDirectory run(fs, clock, "/run", true);
  EXPECT_EQ(run.epochs().size(), 2U);
  run.add_epoch(row(2));
  EXPECT_EQ(fs.read("/run/metrics.jsonl").or_throw(), before);
  run.add_epoch(row(3));
  EXPECT_EQ(parse_metrics(fs.read("/run/metrics.jsonl").or_throw()).size(), 3U);
}

TEST(RunDirectory, AnEpochWithoutAValidationLeavesItsColumnsEmpty) {
  MemoryFs fs;
  ManualClock clock;
  RunDirectory run(fs, clock, "/run", false);
  run.add_epoch({.epoch = 1, .train_loss = 0.5, .lr = 0.25});
  EXPECT_THAT(fs.read("/run/results.csv").or_throw(),
              testing::HasSubstr("1,0.500000,0.000000,,,,0.25,"));
  EXPECT_FALSE(parse_metrics(fs.read("/run/metrics.jsonl").or_throw()).at(0).val);
}

// A checkpoint is written after the row of its epoch, and is durable: so must the row be.
TEST(RunDirectory, TheRowOfAnEpochSurvivesAPowerCut) {
  MemoryFs fs;
  ManualClock clock;
  RunDirectory(fs, clock, "/run", false).write("args.toml", "");
  RunDirectory(fs, clock, "/run", true).add_epoch(row(1));
  fs.crash();
  EXPECT_EQ(RunDirectory(fs, clock, "/run", true).epochs().size(), 1U);
  RunDirectory(fs, clock, "/run", true).add_epoch(row(2));
  fs.crash();
  EXPECT_EQ(RunDirectory(fs, clock, "/run", true).epochs().size(), 2U);
}

TEST(RunDirectory, RefusesADirectoryInUseAndAResumeOfNothing) {
  MemoryFs fs;
  ManualClock clock;
  EXPECT_THROW(RunDirectory(fs, clock, "/run", true), Error);
  RunDirectory(fs, clock, "/run", false).write("args.toml", "");
  EXPECT_THROW(RunDirectory(fs, clock, "/run", false), Error);
}

TEST(RunDirectory, SettingsAreToml) {
  EXPECT_EQ(settings_toml({{"lr", toml_string("1e-3")}, {"name", toml_string("a \"b\"\n")}}),
            "lr = \"1e-3\"\nname = \"a \\\"b\\\"\\n\"\n");
}

// Sizes and text only: the checksums are compared with no other writer's.
TEST(TfEvents, HeaderIsOneRecordThatNamesTheVersion) {
  const std::string header = tfevents_header(0.0);
  ASSERT_EQ(header.size(), 8U + 4 + 26 + 4);
  EXPECT_EQ(static_cast<uint8_t>(header[0]), 26);
  EXPECT_NE(header.find("brain.Event:2"), std::string::npos);
}

}  // namespace
}  // namespace ndtrain
