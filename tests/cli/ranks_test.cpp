// `train` by several processes: the same bytes as by one, and what happens when one is lost.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "framework/core/json.h"
#include "framework/parallel/cost_profile_json.h"
#include "framework/parallel/schedules/schedules.h"
#include "ndp/jobs/run_directory.h"
#include "tests/cli/ranks_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_cli::Outcome;
using Words = std::vector<std::string>;

using Ranks = testing_cli::RanksTest;

TEST_F(Ranks, AnyNumberOfThemAndAnyScheduleGiveTheSameModel) {
  ASSERT_EQ(run(train("one", {"-e", "2", "--shards", "4"})).code, 0);
  for (const Words& ranks :
       {Words{"2"}, {"4", "--sync", "dear"}, {"3", "--sync", "rb", "--shares", "2:1:1"}}) {
    Words more = {"-e", "2", "--shards", "4", "--ranks"};
    more.insert(more.end(), ranks.begin(), ranks.end());
    const Outcome o = run(train("by" + ranks[0], more));
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_THAT(o.out, HasSubstr("exposed_s"));
    EXPECT_TRUE(model("by" + ranks[0]) == model("one")) << ranks[0];
  }
}

TEST_F(Ranks, AnyNumberOfThemGivesTheSameAverageOfTheWeights) {
  const Words flags = {"-e", "2", "--shards", "4", "--ema", "0.8"};
  ASSERT_EQ(run(train("plain", {"-e", "2", "--shards", "4"})).code, 0);
  ASSERT_EQ(run(train("one", flags)).code, 0);
  EXPECT_FALSE(model("one") == model("plain"));
  for (const Words& ranks :
       {Words{"2"}, {"4", "--sync", "dear"}, {"3", "--shard-optimizer", "--clip-norm", "100"}}) {
    Words more = flags;
    more.emplace_back("--ranks");
    more.insert(more.end(), ranks.begin(), ranks.end());
    const bool clipped = ranks.back() == "100";
    const std::string expected = clipped ? "clipped" : "one";
    if (clipped) {
      Words alone = flags;
      alone.insert(alone.end(), {"--clip-norm", "100"});
      ASSERT_EQ(run(train(expected, alone)).code, 0);
    }
    const Outcome o = run(train("by" + ranks[0], more));
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_TRUE(model("by" + ranks[0]) == model(expected)) << ranks[0];
  }
}

TEST_F(Ranks, AnyNumberOfThemSeesTheSameAugmentedPhotos) {
  const Words flags = {"-e", "3",         "--shards",
                       "4",  "--augment", "crop,flip,cutout,jitter,randaugment"};
  ASSERT_EQ(run(train("one", flags)).code, 0);
  for (const std::string ranks : {"2", "3"}) {
    Words more = flags;
    more.insert(more.end(), {"--ranks", ranks});
    const Outcome o = run(train("by" + ranks, more));
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_TRUE(model("by" + ranks) == model("one")) << ranks;
  }
}

// What a run's stdout says of it.
Json result_of(const Outcome& o) { return parse_json(o.out); }

TEST_F(Ranks, MeasuredSchedulesGiveTheSameModelAndSayWhatWasPredicted) {
  ASSERT_EQ(run(train("one", {"-e", "5", "--shards", "2"})).code, 0);
  for (const std::string sync : {"auto", "mg-wfbp", "bytescheduler", "pipedap"}) {
    const Outcome o = run(train(sync, {"-e", "5", "--ranks", "2", "--sync", sync, "--json"}));
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_TRUE(model(sync) == model("one")) << sync;
    EXPECT_THAT(o.err, AllOf(HasSubstr(sync + ": measured collectives"), HasSubstr("(predicted"),
                             HasSubstr("is the slowest")));
    const Json r = result_of(o);
    EXPECT_GT(r.at("step_s"), 0);
    EXPECT_GT(r.at("step_computing_s"), 0);
    EXPECT_GE(r.at("step_exposed_s"), 0);
    EXPECT_GT(r.at("predicted_step_s"), 0);
    EXPECT_GE(r.at("predicted_exposed_s"), 0);
    EXPECT_LE(r.at("slowest_rank"), 1);
    const CostProfile costs = load_cost_profile(real_fs(), at(sync + "/parallel_profile.json"));
    EXPECT_EQ(costs.ranks, 2);
    EXPECT_EQ(real_fs().read(at(sync + "/parallel_plan.txt")).or_throw(),
              make_comm_plan(sync, costs).text() + "\n");
  }
  const Outcome replayed = run({"bench", "parallel", "--replay", "auto/parallel_profile.json",
                                "--sync", "auto", "--steps", "2", "--json"});
  EXPECT_EQ(replayed.code, 0) << replayed.err;
  const Outcome brief = run(train("brief", {"-e", "1", "--ranks", "2", "--sync", "auto"}));
  EXPECT_EQ(brief.code, 0) << brief.err;
  EXPECT_THAT(brief.err, HasSubstr("too few to measure the times that auto goes by"));
}

TEST_F(Ranks, SharesThatAreMeasuredGiveTheSameModelAndAreSaid) {
  ASSERT_EQ(run(train("one", {"-e", "5", "--shards", "8"})).code, 0);
  const Outcome o = run(train(
      "measured", {"-e", "5", "--shards", "8", "--ranks", "2", "--shares", "measured", "--json"}));
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(model("measured") == model("one"));
  EXPECT_THAT(o.err, AllOf(HasSubstr("shares: rank 0 does"), HasSubstr("of 8 shards")));
  int all = 0;
  const Json result = result_of(o);
  ASSERT_EQ(result.at("shares").size(), 2U);
  for (const Json& share : result.at("shares")) {
    all += share.at("shards").get<int>();
    EXPECT_GT(share.at("shard_s"), 0);
  }
  EXPECT_EQ(all, 8);
  EXPECT_EQ(result.at("shares")[1].at("rank"), 1);
  const Outcome more = run(train("measured", {"-e", "10", "--ranks", "3", "--shares", "measured",
                                              "--resume", "--shard-optimizer"}));
  ASSERT_EQ(more.code, 0) << more.err;
  EXPECT_THAT(more.err, AllOf(HasSubstr("shares: rank 0 does"), HasSubstr("rank 2")));
  const Outcome few = run(train("few", {"-e", "1", "--ranks", "2", "--shares", "measured"}));
  ASSERT_EQ(few.code, 0) << few.err;
  EXPECT_THAT(few.err, AllOf(HasSubstr("none can be moved"), HasSubstr("more --shards")));
}

TEST_F(Ranks, SizesOfBucketsAreGivenOrTriedWithTheSameModel) {
  const Words brief = {"-e", "10", "-b", "4", "--shards", "2"};
  ASSERT_EQ(run(train("one", brief)).code, 0);
  const auto by = [&](const std::string& run_directory, const Words& more) {
    Words words = train(run_directory, brief);
    words.insert(words.end(), {"--ranks", "2"});
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_TRUE(model(run_directory) == model("one")) << run_directory;
    return o.err;
  };
  EXPECT_THAT(by("tuned", {"--bucket-size", "auto", "--sync", "dear"}),
              HasSubstr("dear: of 10 sizes of buckets that of"));
  EXPECT_THAT(by("given", {"--bucket-size", "1"}), HasSubstr("ddp: a step takes"));
}

TEST_F(Ranks, WhatTheOthersKeepMeanwhileGoesWithThem) {
  const std::string temporary = at("temporary");
  real_fs().make_directories(temporary).or_throw();
  setenv("TMPDIR", temporary.c_str(), 1);
  const Outcome done = run(train("run", {"-e", "1", "--ranks", "3"}));
  const Outcome refused = run(train("run", {"-e", "1", "--ranks", "3"}));
  unsetenv("TMPDIR");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(refused.code, 1) << refused.err;
  EXPECT_EQ(real_fs().list(temporary).or_throw(), std::vector<std::string>());
}

TEST_F(Ranks, ATraceHasWhatAllOfThemDid) {
  const Outcome o = run(train("run", {"-e", "2", "--ranks", "2", "--trace", "trace.json"}));
  ASSERT_EQ(o.code, 0) << o.err;
  expect_a_trace_of_two("trace.json");
}

TEST_F(Ranks, OptionsOfAStepGiveTheBytesOfOneProcessAndAnyNumberOfThemGoesOn) {
  const Words step = {"--shards", "2", "--clip-norm", "0.05", "--accumulate", "3"};
  const auto trained = [&](const std::string& to, const Words& more) {
    Words words = step;
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = run(train(to, words));
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_THAT(o.out, HasSubstr("clip_exposed_s"));
  };
  trained("one", {"-e", "2"});
  trained("two", {"-e", "2", "--ranks", "2", "--shard-optimizer"});
  const auto moments = [&](const std::string& of) {
    return real_fs().read(at(of + "/last.safetensors")).or_throw();
  };
  EXPECT_TRUE(model("two") == model("one"));
  EXPECT_TRUE(moments("two") == moments("one")) << "sharded moments are whole in a checkpoint";
  trained("more", {"-e", "1", "--ranks", "2", "--shard-optimizer", "--sync", "dear"});
  EXPECT_FALSE(moments("more") == moments("one"));
  trained("more", {"-e", "2", "--resume"});
  EXPECT_TRUE(model("more") == model("one"));
  EXPECT_TRUE(moments("more") == moments("one"));
  ASSERT_EQ(run(train("plain", {"-e", "2", "--shards", "2"})).code, 0);
  EXPECT_FALSE(moments("plain") == moments("one"));
  const Outcome other = run(train("more", {"-e", "3", "--resume", "--accumulate", "3"}));
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("--clip-norm is not given and was 0.05"));
}

TEST_F(Ranks, WhatBf16ChangesIsSaidAndKeptWithTheRun) {
  ASSERT_EQ(run(train("exact", {"-e", "1", "--shards", "2"})).code, 0);
  const Outcome o = run(train("run", {"-e", "1", "--ranks", "2", "--wire-dtype", "bf16"}));
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, AllOf(HasSubstr("gradients travel as bf16"), HasSubstr("number of ranks")));
  EXPECT_FALSE(model("run") == model("exact"));
  const Outcome other = run(train("run", {"-e", "2", "--ranks", "2", "--resume"}));
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("--wire-dtype is not given and was bf16"));
}

TEST_F(Ranks, ABreakdownTakesTimesAndLeavesNoModel) {
  for (const std::string only : {"rs", "ag", "none"}) {
    const Outcome o =
        run(train("run-" + only, {"-e", "1", "--ranks", "2", "--comm-only", only, "--json"}));
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_THAT(o.err, HasSubstr("no model is written"));
    const Json result = parse_json(o.out);
    EXPECT_TRUE(result.at("model").is_null());
    EXPECT_TRUE(result.at("top1").is_null());
    EXPECT_GT(result.at("train_s"), 0);
    for (const char* file : {"/model.onnx", "/last.safetensors", "/best.safetensors"}) {
      EXPECT_FALSE(real_fs().exists(at("run-" + only + file))) << file;
    }
    const Outcome on = run(train("run-" + only, {"-e", "1", "--ranks", "2", "--resume"}));
    EXPECT_EQ(on.code, 1);
    EXPECT_THAT(on.err, HasSubstr("--comm-only is not given and was " + only));
  }
}

TEST_F(Ranks, WhereOneIsKilledTheOthersEndAndAnyNumberGoesOnWithTheSameBytes) {
  ASSERT_EQ(run(train("whole", {"-e", "30", "--shards", "3"})).code, 0);
  const Words begun = {"-e", "30", "--shards", "3", "--rank-timeout", "5", "--on-rank-loss", "end"};
  const Pair pair = start_apart(begun);
  wait_for("run/last.safetensors");
  kill(pair.second, SIGKILL);
  end_of(pair.second, "rank1");
  const Outcome o = end_of(pair.first, "rank0");
  EXPECT_EQ(o.code, 4) << o.err;
  EXPECT_THAT(o.err, AllOf(HasSubstr("lacks rank 1"), HasSubstr("--resume goes on")));
  const Outcome more = run(train("run", {"-e", "30", "--ranks", "4", "--resume"}));
  EXPECT_EQ(more.code, 2);
  EXPECT_THAT(more.err, HasSubstr("--ranks 4 but 3 shards"));
  const Outcome rest = run(train("run", {"-e", "30", "--ranks", "3", "--resume"}));
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_TRUE(model("run") == model("whole"));
}

TEST_F(Ranks, WhereOneIsKilledTheOthersRegroupToTheSameBytes) {
  ASSERT_EQ(run(train("whole", kThirtyEpochs)).code, 0);
  const Outcome first = after_a_kill(1, "run/last.safetensors", {});
  EXPECT_THAT(first.err, HasSubstr("ranks 0, 2 go on from epoch"));
  EXPECT_THAT(first.out, HasSubstr("lost_ranks"));
}

// Of metrics.jsonl.
std::vector<int64_t> epochs_of(const std::string& run_directory) {
  std::vector<int64_t> epochs;
  const std::string rows = real_fs().read(join(run_directory, "metrics.jsonl")).or_throw();
  for (const EpochRow& row : parse_metrics(rows)) epochs.push_back(row.epoch);
  return epochs;
}

TEST_F(Ranks, WithAShardedOptimizerTheOthersGoBackToTheCheckpointAndOnToTheSameBytes) {
  ASSERT_EQ(run(train("whole", kThirtyEpochs)).code, 0);
  const Outcome first = after_a_kill(1, "run/last.safetensors", {"--shard-optimizer"});
  EXPECT_THAT(first.err, HasSubstr("the moments of rank 1 are gone: ranks 0, 2 go on from the "
                                   "checkpoint at epoch"));
  EXPECT_EQ(epochs_of(at("run")), epochs_of(at("whole")));
}

// As soon as rank 0 has its rows.
TEST_F(Ranks, WithAShardedOptimizerAndNoCheckpointYetTheOthersBeginAgainToTheSameBytes) {
  draw_photos(200);
  ASSERT_EQ(run(train("whole", kThirtyEpochs)).code, 0);
  const Outcome first = after_a_kill(2, "run/quarantine.csv", {"--shard-optimizer"});
  EXPECT_THAT(first.err, HasSubstr("the moments of rank 2 are gone: ranks 0, 1 go on from the "));
  EXPECT_EQ(epochs_of(at("run")), epochs_of(at("whole")));
}

TEST_F(Ranks, OneThatWakesAfterItWasGivenUpEndsAndTheOthersHaveTheSameBytes) {
  ASSERT_EQ(run(train("whole", kThirtyEpochs)).code, 0);
  const std::vector<pid_t> ranks = start_three({"--rank-timeout", "1"});
  wait_for("run/last.safetensors");
  kill(ranks[2], SIGSTOP);
  const Outcome first = end_of(ranks[0], "rank0"), second = end_of(ranks[1], "rank1");
  kill(ranks[2], SIGCONT);
  const Outcome woken = end_of(ranks[2], "rank2");
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(woken.code, 4) << woken.err;
  EXPECT_THAT(woken.err, HasSubstr("given this rank up"));
  EXPECT_FALSE(real_fs().exists(at("run2")));
  EXPECT_TRUE(model("run") == model("whole"));
}

TEST_F(Ranks, OneThatWasStartedHereAndStaysStoppedIsNotWaitedFor) {
  Words words = train("run", kThirtyEpochs);
  for (const char* word : {"--ranks", "3", "--rank-timeout", "1"}) words.emplace_back(word);
  const pid_t first = start_as("rank0", words);
  wait_for("run/last.safetensors");
  std::ifstream children("/proc/" + std::to_string(first) + "/task/" + std::to_string(first) +
                         "/children");
  pid_t child = 0;
  ASSERT_TRUE(children >> child);
  kill(child, SIGSTOP);
  const Outcome o = end_of(first, "rank0");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("lost_ranks"));
  EXPECT_NE(kill(child, 0), 0) << "it is still there";
}

TEST_F(Ranks, WithoutRankZeroTheOthersEndAndAnyNumberGoesOnToTheSameBytes) {
  ASSERT_EQ(run(train("whole", kThirtyEpochs)).code, 0);
  const std::vector<pid_t> ranks = start_three({"--rank-timeout", "5"});
  wait_for("run/last.safetensors");
  kill(ranks[0], SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  end_of(ranks[0], "rank0");
  for (const int r : {1, 2}) {
    const Outcome o = end_of(ranks[static_cast<size_t>(r)], "rank" + std::to_string(r));
    EXPECT_EQ(o.code, 4) << o.err;
    EXPECT_THAT(o.err, AllOf(HasSubstr("rank 0"), HasSubstr("--resume goes on")));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(7));
  for (const char* number : {"4", "2", "3", "1"}) {
    std::filesystem::remove_all(at("again"));
    std::filesystem::copy(at("run"), at("again"), std::filesystem::copy_options::recursive);
    const Outcome rest = run(train("again", {"-e", "30", "--ranks", number, "--resume"}));
    ASSERT_EQ(rest.code, 0) << rest.err;
    EXPECT_TRUE(model("again") == model("whole")) << number;
  }
}

// Rank 1 ends before the training begins.
TEST_F(Ranks, WhereNothingWasSavedNobodyIsToldToResume) {
  const Pair pair = start_apart({"-e", "2"}, {"--labels", "missing.csv"});
  EXPECT_EQ(end_of(pair.second, "rank1").code, 1);
  const Outcome o = end_of(pair.first, "rank0");
  EXPECT_EQ(o.code, 4) << o.err;
  EXPECT_THAT(o.err, AllOf(HasSubstr("lacks rank 1"),
                           HasSubstr("nothing was saved: the same command begins anew"),
                           ::testing::Not(HasSubstr("--resume"))));
  EXPECT_FALSE(real_fs().exists(at("run")));
}

TEST_F(Ranks, OptionsOfAStepThatMakeNoSenseAreUsageErrors) {
  const auto refused = [&](const Words& more) {
    const Outcome o = run(train("run", more));
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_FALSE(real_fs().exists(at("run")));
    return o.err;
  };
  EXPECT_THAT(refused({"--clip-norm", "-1"}), HasSubstr("clip_norm -1"));
  EXPECT_THAT(refused({"--accumulate", "0"}), HasSubstr("--accumulate 0: at least 1"));
  for (const std::string sync : {"sparse", "local", "diloco", "powersgd"}) {
    EXPECT_THAT(refused({"--ranks", "2", "--ema", "0.9", "--sync", sync}),
                HasSubstr("--ema with --sync " + sync));
  }
  EXPECT_THAT(refused({"--ranks", "2", "--ema", "0.9", "--sync", "auto", "--allow-lossy"}),
              HasSubstr("--ema 0.9 with --allow-lossy"));
  EXPECT_THAT(
      refused({"--ranks", "2", "--ema", "0.9", "--shard-optimizer", "--on-rank-loss", "regroup"}),
      HasSubstr("--ema with --shard-optimizer and --on-rank-loss regroup"));
  EXPECT_THAT(refused({"--accumulate", "7", "--shards", "2"}),
              HasSubstr("--accumulate 7 but a shard has 6 of the --batch 12"));
  EXPECT_THAT(refused({"--ranks", "2", "--sync", "rb", "--shard-optimizer"}),
              HasSubstr("take another --sync"));
  EXPECT_THAT(refused({"--ranks", "2", "--wire-dtype", "f16"}),
              HasSubstr("--wire-dtype f16: there are f32 and bf16"));
  for (const char* compressor : {"topk", "randomk", "fp8"}) {
    for (const char* flag : {"--sync", "--wire-dtype"}) {
      EXPECT_THAT(refused({"--ranks", "2", flag, compressor}),
                  HasSubstr(std::string(flag) + " " + compressor +
                            ": that is which elements of a gradient travel, not when; in "
                            "ndtrain train --sync sparse --compressor says it"));
    }
  }
  for (const std::string integers : {"int8", "int4"}) {
    for (const std::string flag : {"--sync", "--wire-dtype"}) {
      EXPECT_THAT(refused({"--ranks", "2", flag, integers}),
                  HasSubstr(flag + " " + integers +
                            ": values travel so by ndtrain train --sync sparse, local and diloco"));
    }
  }
  EXPECT_THAT(refused({"--ranks", "2", "--comm-only", "all"}),
              HasSubstr("--comm-only all: there are rs, ag and none"));
  EXPECT_THAT(refused({"--comm-only", "rs"}), HasSubstr("give --ranks 2 or more"));
  EXPECT_THAT(refused({"--ranks", "2", "--comm-only", "rs", "--resume"}), HasSubstr("--resume"));
}

TEST_F(Ranks, FlagsThatMakeNoSenseAreUsageErrors) {
  const auto refused = [&](const Words& more) {
    const Outcome o = run(train("run", more));
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_FALSE(real_fs().exists(at("run")));
    return o.err;
  };
  EXPECT_THAT(refused({"--ranks", "2", "--rank", "1"}), HasSubstr("belong together"));
  EXPECT_THAT(refused({"--ranks", "2", "--rank", "2", "--rendezvous", "localhost:1"}),
              HasSubstr("--rank 2: 0 to 1"));
  EXPECT_THAT(refused({"--ranks", "3", "--shards", "2"}),
              HasSubstr("--ranks 3 but 2 shards: more ranks than that cannot take part"));
  EXPECT_THAT(refused({"--ranks", "65"}), HasSubstr("--ranks 65: 1 to 64"));
  EXPECT_THAT(refused({"--shards", "13"}), HasSubstr("--batch 12 but 13 shards"));
  EXPECT_THAT(refused({"--shards", "0"}), HasSubstr("--shards 0: 1 to 256"));
  EXPECT_THAT(refused({"--ranks", "2", "--shares", "1:2:3"}), HasSubstr("each of 2 ranks"));
  EXPECT_THAT(refused({"--ranks", "2", "--shares", "1:x"}),
              HasSubstr("numbers above 0, as 2:1; or measured"));
  EXPECT_THAT(refused({"--ranks", "2", "--rank-timeout", "0"}), HasSubstr("--rank-timeout 0"));
  EXPECT_THAT(refused({"--ranks", "2", "--sync", "no"}),
              AllOf(HasSubstr("--sync no"), HasSubstr("blocking"), HasSubstr("auto")));
  EXPECT_THAT(refused({"--ranks", "2", "--sync", "rb", "--bucket-size", "4"}),
              HasSubstr("--sync rb has no such size; ddp and dear have"));
  EXPECT_THAT(refused({"--ranks", "2", "--sync", "auto", "--bucket-size", "auto"}),
              HasSubstr("--sync auto has no such size"));
  EXPECT_THAT(refused({"--ranks", "2", "--bucket-size", "0"}), HasSubstr("--bucket-size 0: 1 to"));
  EXPECT_THAT(refused({"--ranks", "2", "--bucket-size", "300"}), HasSubstr("300: 1 to 256"));
  EXPECT_THAT(refused({"--ranks", "2", "--bucket-size", "big"}), HasSubstr("--bucket-size big"));
  EXPECT_THAT(refused({"--trace", "t.json"}), HasSubstr("--trace t.json: it is of ranks"));
  EXPECT_THAT(refused({"--ranks", "2", "--trace", "no/t.json"}), HasSubstr("no directory no"));
  EXPECT_THAT(refused({"--ranks", "2", "--on-rank-loss", "weep"}),
              HasSubstr("--on-rank-loss weep: there are regroup and end"));
  ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);  // as if mpirun had started it
  EXPECT_THAT(refused({"--comm", "mpi", "--on-rank-loss", "regroup"}),
              HasSubstr("by MPI all ranks end together"));
  ::unsetenv("OMPI_COMM_WORLD_RANK");
}

}  // namespace
}  // namespace ndtrain
