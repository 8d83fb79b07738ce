// Trainings by ranks that send some of their gradients.
#include <gmock/gmock.h>

#include <filesystem>

#include "framework/core/json.h"
#include "tests/cli/ranks_fixture.h"

namespace ndtrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_cli::Outcome;

class SparseRanks : public testing_cli::RanksTest {
 protected:
  static Words sparse(const std::string& run_directory, const Words& more) {
    Words words = train(run_directory, {"--ranks", "2", "--sync", "sparse"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

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
      {"--compressor", "randomk", "--wire-dtype", "bf16", "--shares", "2:1", "--shards", "3"},
      {"--compressor", "efsignum", "--opt", "sgd", "--sparse-momentum", "lazy"},
      {"--compressor", "gaussian", "--opt", "sgd", "--sparse-momentum", "catch-up"},
      {"--compressor", "dgc", "--opt", "sgd"},
      {"--staleness", "1"},
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
    for (const std::string& other : models) EXPECT_FALSE(model(directory) == other) << way[1];
    models.push_back(model(directory));
  }
}

// Each rank has its own directory, as on machines of their own.
TEST_F(SparseRanks, WhereOneIsKilledAllGoOnToTheSameBytes) {
  const Words how = {"-e", "30",          "--sync", "sparse", "--drop", "0.9", "--rank-timeout",
                     "5",  "--staleness", "1"};
  Words whole = train("whole", how);
  whole.insert(whole.end(), {"--ranks", "2"});
  ASSERT_EQ(run(whole).code, 0);
  const Pair pair = start_apart(how);
  wait_for("run/last.safetensors");
  kill(pair.second, SIGKILL);
  end_of(pair.second, "rank1");
  const Outcome o = end_of(pair.first, "rank0");
  EXPECT_EQ(o.code, 4) << o.err;
  EXPECT_THAT(o.err, AllOf(HasSubstr("rank 1"), HasSubstr("--resume goes on")));
  Words resumed = how;
  resumed.emplace_back("--resume");
  const Pair again = start_apart(resumed);
  const Outcome second = end_of(again.second, "rank1"), first = end_of(again.first, "rank0");
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(first.err, testing::Not(HasSubstr("had not sent")));
  EXPECT_TRUE(model("run") == model("whole"));
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
  EXPECT_THAT(refused({"--scan", "back"}), HasSubstr("--scan back: there are first and rotate"));
  EXPECT_THAT(refused({"--sparse-momentum", "lazy"}), HasSubstr("it is of --opt sgd"));
  EXPECT_THAT(refused({"--opt", "sgd", "--sparse-momentum", "never"}),
              HasSubstr("there are touched, lazy and catch-up"));
  EXPECT_THAT(refused({"--opt", "sgd", "--sparse-momentum", "catch-up", "--sched", "cosine"}),
              HasSubstr("add --sched constant"));
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
  EXPECT_THAT(refused({"--wire-dtype", "i8"}), HasSubstr("there are f32, f16 and bf16"));
  EXPECT_THAT(refused({"--clip-norm", "1"}), HasSubstr("--clip-norm with --sync sparse"));
  EXPECT_THAT(refused({"--shard-optimizer"}), HasSubstr("--shard-optimizer with --sync sparse"));
  EXPECT_THAT(refused({"--comm-only", "rs"}), HasSubstr("it has no halves"));
  EXPECT_THAT(refused({"--collectives", "native"}), HasSubstr("--collectives with --sync sparse"));
  EXPECT_THAT(refused({"--trace", "t.json"}), HasSubstr("--trace with --sync sparse"));
  EXPECT_THAT(refused({"--comm", "nccl"}), HasSubstr("--comm nccl with --sync sparse"));
  EXPECT_THAT(refused({"--bucket-size", "4"}), HasSubstr("--sync sparse has no such size"));
  EXPECT_THAT(refused({"--shares", "measured"}), HasSubstr("give them, as 2:1"));
  EXPECT_THAT(refused({"--on-rank-loss", "regroup"}), HasSubstr("what the lost rank had not sent"));
  EXPECT_THAT(refused({"--parallel", "pipeline"}), HasSubstr("pipeline"));
  EXPECT_THAT(refused({"--ranks", "1"}), HasSubstr("give --ranks 2 or more"));
  const Outcome alone = run(train("run", {"--drop", "0.5"}));
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, HasSubstr("--drop is of --sync sparse"));
}

}  // namespace
}  // namespace ndtrain
