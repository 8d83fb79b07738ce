// Trainings by ranks whose batches and drop follow what ranks and links take.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/cli/ranks_fixture.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_cli::Outcome;

class ControlledRanks : public testing_cli::RanksTest {
 protected:
  void SetUp() override {
    RanksTest::SetUp();
    write_profile("c.txt", "m");
  }
  void write_profile(const std::string& file, const std::string& of_model) const {
    std::ofstream to(at(file));
    to << "ndtrain-convergence-1\nmodel " << of_model
       << "\nover drop\nreference_batch 4\nreference_drop 0.9\nlargest_batch 16\n";
    for (const double batch : {0.25, 0.5, 1.0}) {
      for (const double drop : {0.5, 0.9, 0.99}) {
        to << "point " << batch << " " << drop << " " << 0.02 * batch + 0.01 * drop << "\n";
      }
    }
  }
  // Of so many epochs, each of 32 photos.
  static Words controlled(const std::string& run_directory, const Words& more) {
    Words words = train(run_directory, {"-b", "4", "--ranks", "2", "--sync", "sparse",
                                        "--controller", "--convergence", "c.txt", "--verify", "1"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string rates(const std::string& run_directory) const {
    return real_fs().read(at(run_directory + "/rates.log")).or_throw();
  }
};

TEST_F(ControlledRanks, GoByWhatTheyMeasureAndGoOnLater) {
  const Outcome o = run(controlled("run", {"-e", "15", "--staleness", "1"}));
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("batches and drop follow what ranks and links take: rates.log"));
  EXPECT_THAT(rates("run"), AllOf(HasSubstr("batches grow"), HasSubstr("batches 16 16"),
                                  HasSubstr("B begins as"), Not(HasSubstr("dry run"))));
  const Outcome more = run(controlled("run", {"-e", "16", "--staleness", "1", "--resume"}));
  ASSERT_EQ(more.code, 0) << more.err;
}

TEST_F(ControlledRanks, AtSitesGoByTheLinksBetweenThem) {
  // Where others use the processors, fewer of the measurements go together, and it takes longer.
  std::string said;
  for (int epochs = 15; epochs <= 120 && said.find("B begins as") == said.npos; epochs *= 2) {
    const std::string rendezvous = free_address();
    std::vector<pid_t> ranks;
    for (const int rank : {0, 1, 2}) {
      const std::string number = std::to_string(rank);
      Words words = {"-b",
                     "6",
                     "-e",
                     std::to_string(epochs),
                     "--staleness",
                     "1",
                     "--sync",
                     "sparse",
                     "--controller",
                     "--convergence",
                     "c.txt",
                     "--verify",
                     "1",
                     "--site",
                     rank == 0 ? "oslo" : "rome"};
      if (epochs > 15) words.emplace_back("--resume");
      ranks.push_back(
          start_as("rank" + number, at_place(train("run" + number, words), rank, 3, rendezvous)));
    }
    for (size_t r = 0; r < 3; ++r) {
      const Outcome o = end_of(ranks[r], "rank" + std::to_string(r));
      ASSERT_EQ(o.code, 0) << o.err;
    }
    said += rates("run0");
  }
  EXPECT_THAT(said, AllOf(HasSubstr("batches grow"), HasSubstr("B begins as")));
  const Outcome one = run(controlled("one", {"-e", "2", "--site", "oslo"}));
  EXPECT_EQ(one.code, 1);
  EXPECT_THAT(one.err, HasSubstr("a controller is for two sites or more: one sends nothing"));
}

TEST_F(ControlledRanks, OnlySayWhatTheyWouldDo) {
  const Outcome o = run(controlled("run", {"-e", "4", "--dry-run", "--largest-batch", "6"}));
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("for a dry run only in the log"));
  EXPECT_THAT(rates("run"), AllOf(HasSubstr("dry run: batches 6 6"), Not(HasSubstr("\nbatches"))));
}

TEST_F(ControlledRanks, FlagsThatMakeNoSenseAreErrors) {
  const std::pair<Words, std::string> ways[] = {
      {{"--on-rank-loss", "regroup"}, "--controller with --on-rank-loss regroup"},
      {{"--compressor", "efsignum"}, "--controller with --compressor efsignum"},
      {{"--compressor", "dgc", "--opt", "sgd"}, "--controller with --compressor dgc"},
      {{"--largest-batch", "17"}, "--largest-batch 17: 1 to 16"},
      {{"--largest-batch", "0"}, "--largest-batch 0: 1 to 16"},
      {{"--sparse-momentum", "catch-up", "--opt", "sgd", "--sched", "constant"},
       "--controller with --sparse-momentum catch-up"}};
  for (const auto& [words, said] : ways) {
    const Outcome o = run(controlled("run", words));
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_THAT(o.err, HasSubstr(said));
  }
  write_profile("c.txt", "resnet18");
  EXPECT_THAT(run(controlled("run", {})).err, HasSubstr("is of resnet18, not of m"));
  std::ofstream(at("c.txt")) << "something else\n";
  EXPECT_THAT(run(controlled("run", {})).err, HasSubstr("c.txt"));
  const Words alone[] = {{"--dry-run"}, {"--largest-batch", "3"}};
  for (const Words& words : alone) {
    Words all = train("run", {"--ranks", "2", "--sync", "sparse"});
    all.insert(all.end(), words.begin(), words.end());
    const Outcome o = run(all);
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_THAT(o.err,
                AllOf(HasSubstr(words.front()), HasSubstr("--controller"), HasSubstr("add")));
  }
  EXPECT_THAT(run(train("run", {"--ranks", "2", "--sync", "sparse", "--convergence", "c.txt"})).err,
              HasSubstr("--convergence is of --controller, or of --sync auto --allow-lossy"));
  EXPECT_THAT(run(train("run", {"--ranks", "2", "--controller"})).err,
              HasSubstr("--controller with --sync ddp: it is of --sync sparse;"));
  EXPECT_THAT(run(train("run", {"--ranks", "2", "--sync", "sparse", "--controller"})).err,
              HasSubstr("--convergence"));
}

}  // namespace
}  // namespace ndtrain
