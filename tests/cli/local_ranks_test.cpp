// Trainings by ranks that agree now and then, or send thin matrices.
#include <gmock/gmock.h>

#include "framework/core/json.h"
#include "tests/cli/ranks_fixture.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_cli::Outcome;

class LocalRanks : public testing_cli::RanksTest {
 protected:
  static Words local(const std::string& run_directory, const std::string& sync, const Words& more) {
    Words words = train(run_directory, {"--ranks", "2", "--sync", sync, "-e", "2"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(LocalRanks, SayWhatTheyDoAndSend) {
  const Outcome o = run(local("run", "diloco", {"--inner-steps", "3", "--json"}));
  ASSERT_EQ(o.code, 0) << o.err;
  const Json said = try_parse_json(o.out);
  const auto sent = said.at("step_sent_bytes").get<double>();
  EXPECT_GT(sent, 0);
  EXPECT_LE(sent, said.at("step_gradient_bytes").get<double>());
  EXPECT_EQ(said.at("left_out_steps"), 0);
  EXPECT_THAT(o.err, AllOf(HasSubstr("takes 3 steps by itself between agreements"),
                           HasSubstr("all agree behind every 102 steps")));
}

TEST_F(LocalRanks, TakeEveryFlag) {
  const std::pair<const char*, Words> ways[] = {
      {"local", {"--inner-steps", "1"}},
      {"local", {"--inner-steps", "2", "--wire-dtype", "bf16"}},
      {"local", {"--clip-norm", "0.01", "--verify", "1"}},
      {"diloco", {}},
      {"diloco", {"--inner-steps", "2", "--outer-lr", "0.5"}},
      {"diloco", {"--inner-steps", "2", "--outer-momentum", "0.5", "--wire-dtype", "f16"}},
      {"diloco", {"--inner-steps", "2", "--fragments", "2"}},
      {"diloco", {"--inner-steps", "2", "--fragments", "2", "--overlap", "1"}},
      {"diloco", {"--inner-steps", "2", "--overlap", "1", "--mixing", "0.25"}},
      {"diloco", {"--wire-dtype", "int8", "--all-gather", "ring"}},
      {"diloco", {"--wire-dtype", "int4"}},
      {"diloco", {"--compressor", "topk"}},
      {"local", {"--compressor", "threshold-v", "--drop", "0.5", "--scan", "rotate"}},
      {"diloco", {"--compressor", "efsignum"}},
      {"diloco", {"--inner-steps", "3", "--drain-every", "2", "--shares", "2:1", "--shards", "3"}}};
  std::vector<std::string> models;
  for (const auto& [sync, way] : ways) {
    const std::string directory = "run" + std::to_string(models.size());
    const Outcome o = run(local(directory, sync, way));
    ASSERT_EQ(o.code, 0) << o.err;
    for (const std::string& other : models)
      EXPECT_FALSE(model(directory) == other) << models.size();
    models.push_back(model(directory));
  }
}

TEST_F(LocalRanks, WhereOneIsKilledAllGoOnToTheSameBytes) {
  expect_the_same_where_one_is_killed({"--sync", "diloco", "--inner-steps", "2"});
}

TEST_F(LocalRanks, ARunIsGoneOnWithAsItWasBegun) {
  ASSERT_EQ(run(train("run", {"--ranks", "2", "--sync", "diloco", "-e", "1"})).code, 0);
  const Outcome o = run(local("run", "diloco", {"--resume", "--inner-steps", "7"}));
  EXPECT_EQ(o.code, 1) << o.err;
  EXPECT_THAT(o.err, HasSubstr("--inner-steps is 7"));
  EXPECT_EQ(run(local("run", "diloco", {"--resume"})).code, 0);
}

TEST_F(LocalRanks, FlagsThatMakeNoSenseAreUsageErrors) {
  const auto refused = [&](const std::string& sync, const Words& more) {
    const Outcome o = run(local("run", sync, more));
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_FALSE(real_fs().exists(at("run")));
    return o.err;
  };
  EXPECT_THAT(refused("diloco", {"--inner-steps", "0"}), HasSubstr("--inner-steps 0: 1 to"));
  EXPECT_THAT(refused("diloco", {"--outer-lr", "0"}), HasSubstr("--outer-lr 0: above 0"));
  EXPECT_THAT(refused("diloco", {"--outer-momentum", "1"}),
              HasSubstr("--outer-momentum 1: 0 to below 1"));
  EXPECT_THAT(refused("diloco", {"--inner-steps", "4", "--overlap", "4"}),
              HasSubstr("--overlap 4: 0 to 3"));
  EXPECT_THAT(refused("diloco", {"--inner-steps", "4", "--fragments", "5"}),
              HasSubstr("--fragments 5: 1 to 4"));
  EXPECT_THAT(refused("diloco", {"--mixing", "0.5"}), HasSubstr("--mixing 0.5 without --overlap"));
  EXPECT_THAT(refused("diloco", {"--overlap", "1", "--mixing", "1"}),
              HasSubstr("--mixing 1: 0 to below 1"));
  EXPECT_THAT(refused("local", {"--outer-lr", "0.5"}), HasSubstr("is of --sync diloco"));
  EXPECT_THAT(refused("local", {"--staleness", "1"}), HasSubstr("--overlap hides what travels"));
  EXPECT_THAT(refused("local", {"--drop", "0.5"}), HasSubstr("without --compressor all"));
  EXPECT_THAT(refused("local", {"--compressor", "dgc"}), HasSubstr("--compressor dgc: there are"));
  EXPECT_THAT(refused("local", {"--compressor", "signum", "--drop", "0.5"}),
              HasSubstr("a bit of each element"));
  EXPECT_THAT(refused("local", {"--opt", "sgd", "--sparse-momentum", "lazy"}),
              HasSubstr("--sparse-momentum lazy with --sync local: it is of --sync sparse;"));
  EXPECT_THAT(refused("diloco", {"--all-gather", "ring"}), HasSubstr("added up as it travels"));
  EXPECT_THAT(refused("powersgd", {"--drop", "0.5"}),
              HasSubstr("--drop 0.5 with --sync powersgd: it is of --sync sparse, local, diloco;"));
  EXPECT_THAT(refused("powersgd", {"--wire-dtype", "int8"}), HasSubstr("there are f32, f16"));
  EXPECT_THAT(refused("sparse", {"--fragments", "2"}),
              HasSubstr("--fragments 2 with --sync sparse: it is of --sync local, diloco;"));
  EXPECT_THAT(refused("local", {"--shard-optimizer"}), HasSubstr("with --sync local"));
  EXPECT_THAT(refused("local", {"--parallel", "pipeline"}), HasSubstr("pipeline"));
  EXPECT_THAT(refused("local", {"--ranks", "1"}), HasSubstr("give --ranks 2 or more"));
  EXPECT_THAT(refused("local", {"--drain-every", "0"}), HasSubstr("--drain-every 0: 1 to"));
  EXPECT_THAT(refused("local", {"--compute", "f16"}), HasSubstr("take bf16"));
  EXPECT_THAT(refused("local", {"--verify", "0"}), HasSubstr("--verify 0: 1 to"));
  EXPECT_THAT(refused("ddp", {"--verify", "1"}),
              HasSubstr("--verify 1 with --sync ddp: it is of --sync sparse, local"));
}

TEST_F(LocalRanks, OrSendThinMatrices) {
  const Outcome o = run(local("thin", "powersgd", {"--factor-rank", "1", "--json"}));
  ASSERT_EQ(o.code, 0) << o.err;
  const Json said = try_parse_json(o.out);
  EXPECT_LT(said.at("step_sent_bytes").get<double>(), said.at("step_gradient_bytes").get<double>());
  EXPECT_THAT(o.err, HasSubstr("products of matrices with 1 columns"));
  ASSERT_EQ(run(local("wide", "powersgd", {"--wire-dtype", "bf16", "--clip-norm", "1"})).code, 0);
  EXPECT_FALSE(model("thin") == model("wide"));
  const auto refused = [&](const std::string& sync, const Words& more) {
    const Outcome bad = run(local("run", sync, more));
    EXPECT_EQ(bad.code, 2) << bad.err;
    return bad.err;
  };
  EXPECT_THAT(refused("powersgd", {"--factor-rank", "65"}), HasSubstr("--factor-rank 65: 1 to 64"));
  EXPECT_THAT(refused("powersgd", {"--staleness", "1"}), HasSubstr("waits for what it sends"));
  EXPECT_THAT(refused("powersgd", {"--drain-every", "5"}), HasSubstr("waits for what it sends"));
  EXPECT_THAT(refused("powersgd", {"--inner-steps", "5"}), HasSubstr("is of --sync local"));
  EXPECT_THAT(refused("diloco", {"--factor-rank", "5"}), HasSubstr("is of --sync powersgd"));
}

}  // namespace
}  // namespace ndtrain
