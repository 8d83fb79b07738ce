#include "ndp/jobs/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "framework/core/json.h"
#include "framework/core/publish.h"
#include "framework/testing/memory_fs.h"
#include "ndp/jobs/tfevents.h"
#include "tests/support/files.h"

namespace ndtrain::ndp {
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

TEST(RunDirectory, ARowThatIsNotAsItWasWrittenIsCountedAndLeftOut) {
  const std::string whole = metrics_line(row(1)) + metrics_line(row(2)) + metrics_line(row(3));
  const size_t first = metrics_line(row(1)).size(), second = first + metrics_line(row(2)).size();
  for (size_t at = first; at + 1 < second; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      int64_t damaged = 0;
      const std::vector<EpochRow> rows = parse_metrics(bytes, &damaged);
      ASSERT_GE(damaged, 1) << at << ", bit " << bit;
      ASSERT_EQ(rows.size(), 2U) << at << ", bit " << bit;
      EXPECT_EQ(rows[0].epoch + rows[1].epoch, 4);
    }
  }
}

TEST(RunDirectory, RowsOfEarlierProgramsAreReadAndWrittenAnewWithChecksums) {
  MemoryFs fs;
  ManualClock clock;
  fs.make_directories("/run").or_throw();
  support::write_file(fs, "/run/args.toml", "");
  support::write_file(fs, "/run/metrics.jsonl",
                      json_text(to_json(row(1))) + "\n{\"epoch\": 2, \"tr");
  RunDirectory run(fs, clock, "/run", true);
  run.add_epoch(row(2));
  EXPECT_EQ(fs.read("/run/metrics.jsonl").or_throw(), metrics_line(row(1)) + metrics_line(row(2)));
}

TEST(RunDirectory, AnEpochWithoutAValidationLeavesItsColumnsEmpty) {
  MemoryFs fs;
  ManualClock clock;
  RunDirectory run(fs, clock, "/run", false);
  run.add_epoch({.epoch = 1, .train_loss = 0.5, .lr = 0.25});
  EXPECT_THAT(fs.read("/run/results.csv").or_throw(),
              ::testing::HasSubstr("1,0.500000,0.000000,,,,0.25,"));
  EXPECT_FALSE(parse_metrics(fs.read("/run/metrics.jsonl").or_throw()).at(0).val);
}

TEST(RunDirectory, TheTop5OfTrainingRowsComesLastWhereItIsKnown) {
  MemoryFs fs;
  ManualClock clock;
  RunDirectory run(fs, clock, "/run", false);
  run.write("args.toml", "");
  run.add_epoch({.epoch = 1, .train_loss = 0.5, .train_top5 = 0.75, .lr = 0.25});
  run.add_epoch(row(2));
  const std::string csv = fs.read("/run/results.csv").or_throw();
  EXPECT_THAT(csv,
              ::testing::StartsWith("epoch,train_loss,train_top1,val_loss,val_top1,val_top5,lr,"
                                    "seconds,train_top5\n1,"));
  EXPECT_THAT(csv, ::testing::HasSubstr(",0.000,0.750000\n2,"));
  EXPECT_THAT(csv, ::testing::EndsWith(",0.000,\n"));
  const std::vector<EpochRow> rows = parse_metrics(fs.read("/run/metrics.jsonl").or_throw());
  EXPECT_EQ(rows.at(0).train_top5, 0.75);
  EXPECT_FALSE(rows.at(1).train_top5);
}

TEST(RunDirectory, AnEarlierVersionsTableGetsTheColumnsThatItLacks) {
  MemoryFs fs;
  ManualClock clock;
  {
    RunDirectory run(fs, clock, "/run", false);
    run.write("args.toml", "");
    run.add_epoch(row(1));
    run.write("results.csv",
              "epoch,train_loss,train_top1,val_loss,val_top1,val_top5,lr,seconds\n"
              "1,1.000000,0.000000,0.000000,0.500000,0.000000,0,0.000\n");
  }
  RunDirectory(fs, clock, "/run", true).add_epoch({.epoch = 2, .train_top5 = 0.5});
  EXPECT_EQ(fs.read("/run/results.csv").or_throw(),
            "epoch,train_loss,train_top1,val_loss,val_top1,val_top5,lr,seconds,train_top5\n"
            "1,1.000000,0.000000,0.000000,0.500000,0.000000,0,0.000,\n"
            "2,0.000000,0.000000,,,,0,0.000,0.500000\n");
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

// Or both would write their rows into one results.csv.
TEST(RunDirectory, IsOfOneProcessAtATime) {
  MemoryFs fs;
  ManualClock clock;
  RunDirectory(fs, clock, "/run", false).write("args.toml", "");
  const RunDirectory first(fs, clock, "/run", true);
  try {
    const RunDirectory second(fs, clock, "/run", true);
    FAIL() << "two are at work on one run";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("process " + std::to_string(getpid())));
    EXPECT_THAT(e.what(), ::testing::HasSubstr("another -o"));
  }
}

TEST(RunDirectory, AStartThatFailsLeavesNothingBehind) {
  MemoryFs fs;
  ManualClock clock;
  RunDirectory run(fs, clock, "/runs/a/b", false);
  run.write("classes.txt", "cat\n");
  run.write("args.toml", "");
  run.abandon();
  EXPECT_FALSE(fs.exists("/runs"));

  fs.make_directories("/mine").or_throw();
  publish(fs, "/mine/notes.txt", "").or_throw();
  RunDirectory beside(fs, clock, "/mine", false);
  beside.write("args.toml", "");
  beside.abandon();
  EXPECT_THAT(*fs.list("/mine"), ::testing::ElementsAre("notes.txt"));

  EXPECT_THROW(RunDirectory(fs, clock, "/none", true), Error);
  EXPECT_FALSE(fs.exists("/none")) << "there was nothing to resume";
}

TEST(RunDirectory, ARunThatIsResumedIsNotAbandoned) {
  MemoryFs fs;
  ManualClock clock;
  RunDirectory(fs, clock, "/run", false).write("args.toml", "");
  RunDirectory again(fs, clock, "/run", true);
  again.abandon();
  EXPECT_TRUE(fs.exists("/run/args.toml"));
}

// Sizes and text only: the checksums are compared with no other writer's.
TEST(TfEvents, HeaderIsOneRecordThatNamesTheVersion) {
  const std::string header = tfevents_header(0.0);
  ASSERT_EQ(header.size(), 8U + 4 + 26 + 4);
  EXPECT_EQ(static_cast<uint8_t>(header[0]), 26);
  EXPECT_NE(header.find("brain.Event:2"), std::string::npos);
}

}  // namespace
}  // namespace ndtrain::ndp
