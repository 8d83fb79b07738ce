// Trainings by ranks that send some of their gradients.
#include <gmock/gmock.h>

#include <filesystem>

#include "framework/core/json.h"
#include "tests/cli/ranks_fixture.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_cli::Outcome;

class SparseRanks : public testing_cli::RanksTest {
 protected:
  static Words sparse(const std::string& run_directory, const Words& more) {
    Words words = train(run_directory, {"--ranks", "2", "--sync", "sparse"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(SparseRanks, ATraceHasWhatAllOfThemDid) {
  const Outcome o = run(train("run", {"-e", "2", "--ranks", "2", "--sync", "sparse", "--staleness",
                                      "1", "--trace", "trace.json"}));
  ASSERT_EQ(o.code, 0) << o.err;
  expect_a_trace_of_two("trace.json");
}

TEST_F(SparseRanks, OfWholeGradientsGiveTheModelOfOneProcess) {
  ASSERT_EQ(run(train("whole", {"-e", "2", "--shards", "2"})).code, 0);
  const Outcome o = run(sparse("run", {"-e", "2", "--drop", "0"}));
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(model("run") == model("whole"));
}

TEST_F(SparseRanks, SayWhatWasSentOfAllGradients) {
  const Outcome o = run(sparse("run", {"-e", "2", "--drop", "0.9", "--json"}));
  ASSERT_EQ(o.code, 0) << o.err;
  const Json said = try_parse_json(o.out);
  const auto sent = said.at("step_sent_bytes").get<double>();
  const auto all = said.at("step_gradient_bytes").get<double>();
  EXPECT_EQ(all, 4 * said.at("trained_parameters").get<double>());
  EXPECT_GT(sent, 0.05 * all);
  EXPECT_LT(sent, 0.15 * all) << "a twentieth, and its indices";
  EXPECT_EQ(said.at("left_out_steps"), 0);
  EXPECT_GT(said.at("step_s").get<double>(), 0);
  EXPECT_THAT(o.err, AllOf(HasSubstr("sends 5 % (--compressor threshold-v16)"),
                           HasSubstr("of gradients were sent in a step")));
}

TEST_F(SparseRanks, TakeEveryFlag) {
  const Words ways[] = {
      {"--compressor", "topk", "--wire-dtype", "f16"},
      {"--compressor", "threshold-v", "--scan", "rotate"},
      {"--wire-dtype", "int8"},
      {"--compressor", "randomk", "--wire-dtype", "int4"},
      {"--compressor", "topk", "--drop", "0", "--wire-dtype", "int4"},
      {"--compressor", "randomk", "--wire-dtype", "bf16", "--shares", "2:1", "--shards", "3"},
      {"--compressor", "efsignum", "--opt", "sgd", "--sparse-momentum", "lazy"},
      {"--compressor", "gaussian", "--opt", "sgd", "--sparse-momentum", "catch-up"},
      {"--compressor", "dgc", "--opt", "sgd"},
      {"--drop-of", "conv*=0.5"},
      {"--drop-of", "conv*=0.5,fc.*=0"},
      {"--staleness", "1"},
      {"--compressor", "gtopk"},
      {"--pieces"},
      {"--staleness", "2", "--drain-every", "2"},
      {"--compressor", "dgc", "--opt", "sgd", "--drop", "0.5", "--momentum", "0.5"},
      {"--scan", "first", "--opt", "sgd", "--sparse-momentum", "touched"}};
  std::vector<std::string> models;
  for (const Words& way : ways) {
    const std::string directory = "run" + std::to_string(models.size());
    Words words = sparse(directory, way);
    words.insert(words.end(), {"-e", "2"});
    const Outcome o = run(words);
    ASSERT_EQ(o.code, 0) << o.err;
    for (const std::string& other : models) EXPECT_FALSE(model(directory) == other) << way.back();
    models.push_back(model(directory));
  }
}

TEST_F(SparseRanks, GatherBothWaysToTheSameModelAndARunMayChangeIts) {
  const auto three = [](const std::string& directory, const Words& more) {
    Words words = train(directory, {"--ranks", "3", "--sync", "sparse", "--drop", "0.5"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  ASSERT_EQ(run(three("direct", {"-e", "2"})).code, 0);
  ASSERT_EQ(run(three("ring", {"-e", "1", "--all-gather", "ring"})).code, 0);
  ASSERT_EQ(run(three("ring", {"-e", "2", "--all-gather", "direct", "--resume"})).code, 0);
  EXPECT_TRUE(model("ring") == model("direct"));
  const Pair pair = start_apart({"-e", "2", "--sync", "sparse"}, {"--all-gather", "ring"});
  const Outcome second = end_of(pair.second, "rank1"), first = end_of(pair.first, "rank0");
  EXPECT_EQ(first.code, 1) << first.err;
  EXPECT_THAT(second.err, HasSubstr("--all-gather is ring"));
}

TEST_F(SparseRanks, OfASiteSendNothingElsewhere) {
  const Outcome o = run(sparse("run", {"-e", "1", "--site", "oslo", "--json"}));
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, AllOf(HasSubstr("2 ranks are at 1 site"), HasSubstr("a site sends 1 %"),
                           HasSubstr("ranks 0, 1 add up gradients in ")));
  const Outcome on = run(sparse("run", {"-e", "2", "--resume"}));
  EXPECT_EQ(on.code, 1);
  EXPECT_THAT(on.err, HasSubstr("was begun with other settings"));
}

TEST_F(SparseRanks, OfSeveralSitesTrainAsRanks) {
  const std::string rendezvous = free_address();
  std::vector<pid_t> ranks;
  for (const int rank : {0, 1, 2}) {
    const std::string number = std::to_string(rank);
    ranks.push_back(start_as(
        "rank" + number, at_place(train("run" + number, {"-e", "1", "--sync", "sparse", "--site",
                                                         rank == 0 ? "oslo" : "rome"}),
                                  rank, 3, rendezvous)));
  }
  std::vector<Outcome> all;
  for (size_t r = 0; r < 3; ++r) all.push_back(end_of(ranks[r], "rank" + std::to_string(r)));
  for (const Outcome& o : all) EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(all[0].err, HasSubstr("3 ranks are at 2 sites"));
  EXPECT_THAT(all[1].err, HasSubstr("ranks 1, 2 add up gradients in "));
}

TEST_F(SparseRanks, WhereOneIsKilledAllGoOnToTheSameBytes) {
  expect_the_same_where_one_is_killed({"--sync", "sparse", "--drop", "0.9", "--staleness", "1"});
}

TEST_F(SparseRanks, RegroupWhereThatIsAskedForAndTheRunIsGoneOnWith) {
  const Words how = {"--sync", "sparse", "--drop", "0.9", "--staleness", "1"};
  Words regrouping = how;
  regrouping.insert(regrouping.end(), {"--on-rank-loss", "regroup", "--rank-timeout", "5"});
  const std::vector<pid_t> ranks = start_three(regrouping);
  wait_for("run/last.safetensors");
  kill(ranks[1], SIGKILL);
  const Outcome first = end_of(ranks[0], "rank0"), third = end_of(ranks[2], "rank2");
  end_of(ranks[1], "rank1");
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(third.code, 0) << third.err;
  EXPECT_THAT(first.err, HasSubstr("without rank 1, and what it had not sent, ranks 0, 2 go on"));
  EXPECT_THAT(first.out, HasSubstr("lost_ranks"));
  Words on = train("run", {"-e", "31", "--shards", "8", "--ranks", "3", "--resume"});
  on.insert(on.end(), how.begin(), how.end());
  const Outcome resumed = run(on);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("rank 1 has no file of what it had not sent"));
}

TEST_F(SparseRanks, StopWhereSomebodyAsks) {
  const std::vector<pid_t> ranks =
      start_three({"-e", "100000", "--sync", "sparse", "--drop", "0.9", "--staleness", "1"});
  wait_for("run/last.safetensors");
  kill(ranks[2], SIGTERM);  // one of them
  for (size_t r = 0; r < ranks.size(); ++r) {
    const Outcome o = end_of(ranks[r], "rank" + std::to_string(r));
    EXPECT_EQ(o.code, 4) << o.err;
    EXPECT_THAT(o.err, HasSubstr("--resume goes on"));
  }
}

TEST_F(SparseRanks, ARunIsGoneOnWithAsItWasBegun) {
  ASSERT_EQ(run(sparse("run", {"-e", "1"})).code, 0);
  const auto refused = [&](const Words& words) {
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 1) << o.err;
    return o.err;
  };
  EXPECT_THAT(refused(sparse("run", {"-e", "2", "--resume", "--drop", "0.5"})),
              HasSubstr("--drop is 0.5"));
  EXPECT_THAT(refused(train("run", {"-e", "2", "--ranks", "2", "--resume"})),
              HasSubstr("--sync is not given and was sparse"));
  for (const int rank : {0, 1}) {
    std::filesystem::remove(at("run/rank" + std::to_string(rank) + "-epoch1-step0.safetensors"));
  }
  const Outcome on = run(sparse("run", {"-e", "2", "--resume"}));
  ASSERT_EQ(on.code, 0) << on.err;
  EXPECT_THAT(on.err, AllOf(HasSubstr("rank 0 has no file of what it had not sent"),
                            HasSubstr("rank 1 has no file of what it had not sent")));
}

TEST_F(SparseRanks, DropsOfParametersAreTheRuns) {
  ASSERT_EQ(run(sparse("whole", {"-e", "1", "--drop", "0"})).code, 0);
  ASSERT_EQ(run(sparse("run", {"-e", "1", "--drop-of", "*=0.9", "--drop-of", "conv*=0,*=0"})).code,
            0);
  EXPECT_TRUE(model("run") == model("whole")) << "the last that fits counts";
  EXPECT_THAT(real_fs().read(at("run/args.toml")).or_throw(), HasSubstr("*=0.9,conv*=0,*=0"));
  const Outcome other = run(sparse("run", {"-e", "2", "--resume", "--drop-of", "*=0"}));
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("--drop-of is *=0"));
  const Outcome none = run(sparse("run", {"-e", "2", "--resume"}));
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("--drop-of is not given and was *=0.9,conv*=0,*=0"));
  const Outcome on =
      run(sparse("run", {"-e", "2", "--resume", "--drop-of", "*=0.9,conv*=0", "--drop-of", "*=0"}));
  EXPECT_EQ(on.code, 0) << on.err;
  const Outcome unknown = run(sparse("unknown", {"-e", "1", "--drop-of", "best*=0"}));
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("drop of 'best*': no parameter that is trained"));
}

TEST_F(SparseRanks, ThoseThatDifferAreRefused) {
  const Pair pair = start_apart({"-e", "2", "--sync", "sparse"}, {"--drop", "0.5"});
  const Outcome second = end_of(pair.second, "rank1"), first = end_of(pair.first, "rank0");
  for (const Outcome& o : {first, second}) {
    EXPECT_EQ(o.code, 1) << o.err;
    EXPECT_THAT(o.err, AllOf(HasSubstr("rank 1 is not of the same run as rank 0"),
                             HasSubstr("--drop is 0.5")));
  }
}

TEST_F(SparseRanks, FlagsThatMakeNoSenseAreUsageErrors) {
  const auto refused = [&](const Words& more) {
    const Outcome o = run(sparse("run", more));
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_FALSE(real_fs().exists(at("run")));
    return o.err;
  };
  EXPECT_THAT(refused({"--drop", "1"}), HasSubstr("--drop 1: 0 to below 1"));
  EXPECT_THAT(refused({"--drop", "-0.1"}), HasSubstr("--drop -0.1: 0 to below 1"));
  EXPECT_THAT(refused({"--drop", "nan"}), HasSubstr("--drop nan"));
  EXPECT_THAT(refused({"--compressor", "best"}), HasSubstr("--compressor best: there are topk"));
  EXPECT_THAT(refused({"--compressor", "signum", "--drop", "0.9"}), HasSubstr("a bit of each"));
  EXPECT_THAT(refused({"--compressor", "signum", "--pieces"}), HasSubstr("signs are of all"));
  EXPECT_THAT(refused({"--scan", "back"}), HasSubstr("--scan back: there are first and rotate"));
  EXPECT_THAT(refused({"--all-gather", "star"}),
              HasSubstr("--all-gather star: there are direct and ring"));
  EXPECT_THAT(refused({"--sparse-momentum", "lazy"}), HasSubstr("it is of --opt sgd"));
  EXPECT_THAT(refused({"--opt", "sgd", "--sparse-momentum", "never"}),
              HasSubstr("there are touched, lazy and catch-up"));
  EXPECT_THAT(refused({"--opt", "sgd", "--sparse-momentum", "catch-up", "--sched", "cosine"}),
              HasSubstr("take --sched constant"));
  EXPECT_THAT(refused({"--opt", "sgd", "--nesterov", "--sparse-momentum", "catch-up"}),
              HasSubstr("esterov"));
  EXPECT_THAT(refused({"--staleness", "17"}), HasSubstr("--staleness 17: 0 to 16"));
  EXPECT_THAT(refused({"--staleness", "predict"}), HasSubstr("--staleness predict"));
  EXPECT_THAT(refused({"--drain-every", "5"}), HasSubstr("without --staleness nothing"));
  EXPECT_THAT(refused({"--staleness", "1", "--drain-every", "0"}),
              HasSubstr("--drain-every 0: 1 to"));
  EXPECT_THAT(refused({"--recompute"}), HasSubstr("--recompute is of --parallel pipeline"));
  EXPECT_THAT(refused({"--compressor", "dgc"}), HasSubstr("take --opt sgd"));
  EXPECT_THAT(refused({"--compressor", "dgc", "--opt", "sgd", "--momentum", "0"}),
              HasSubstr("above 0 and below 1"));
  EXPECT_THAT(refused({"--compressor", "dgc", "--opt", "sgd", "--sparse-momentum", "lazy"}),
              HasSubstr("which has its own"));
  EXPECT_THAT(refused({"--wire-dtype", "i8"}),
              HasSubstr("--wire-dtype i8: there are f32, f16, bf16, int8 and int4"));
  EXPECT_THAT(refused({"--clip-norm", "1"}), HasSubstr("--clip-norm 1 with --sync sparse"));
  EXPECT_THAT(refused({"--layer-decay", "0.5"}), HasSubstr("--layer-decay 0.5 with --sync sparse"));
  EXPECT_THAT(refused({"--shard-optimizer"}), HasSubstr("--shard-optimizer with --sync sparse"));
  EXPECT_THAT(refused({"--comm-only", "rs"}), HasSubstr("it has no halves"));
  EXPECT_THAT(refused({"--collectives", "native"}), HasSubstr("--collectives with --sync sparse"));
  EXPECT_THAT(refused({"--comm", "nccl"}), HasSubstr("--comm nccl with --sync sparse"));
  EXPECT_THAT(refused({"--bucket-size", "4"}), HasSubstr("--sync sparse has no such size"));
  EXPECT_THAT(refused({"--shares", "measured"}), HasSubstr("give them, as 2:1"));
  EXPECT_THAT(refused({"--parallel", "pipeline"}), HasSubstr("pipeline"));
  EXPECT_THAT(refused({"--site", "-x"}), HasSubstr("--site -x: letters, digits"));
  EXPECT_THAT(refused({"--ranks", "1"}), HasSubstr("give --ranks 2 or more"));
  for (const std::string wrong :
       {"fc", "=0.5", "fc=", "fc=1", "fc=-0.1", "fc=nan", "fc=0.5x", "fc=0.5,", "fc=0.5,bn"}) {
    EXPECT_THAT(refused({"--drop-of", wrong}), HasSubstr("then = and 0 to below 1")) << wrong;
  }
  EXPECT_THAT(refused({"--drop-of", "fc.weight=0.5", "--drop-of", "conv*=2"}),
              HasSubstr("--drop-of conv*=2: a parameter's name"));
  EXPECT_THAT(refused({"--compressor", "signum", "--drop-of", "*=0.9"}),
              HasSubstr("--drop-of with --compressor signum: it sends a bit of each"));
  for (const auto& [flag, value] :
       {std::pair("--drop", "0.5"), std::pair("--drop-of", "*=0.5"), std::pair("--site", "a")}) {
    const Outcome alone = run(train("run", {flag, value}));
    EXPECT_EQ(alone.code, 2);
    EXPECT_THAT(alone.err, AllOf(HasSubstr(flag), HasSubstr("is of --sync sparse")));
  }
}

}  // namespace
}  // namespace ndtrain
