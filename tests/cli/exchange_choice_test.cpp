// Trainings whose ranks choose how they exchange: --sync auto --allow-lossy.
#include <gmock/gmock.h>

#include <sstream>

#include "framework/core/json.h"
#include "framework/sparse/plan/exchange_method.h"
#include "tests/cli/ranks_fixture.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing_cli::Outcome;

class ExchangeChosen : public testing_cli::RanksTest {
 protected:
  void SetUp() override {
    RanksTest::SetUp();
    // By this whole gradients cost steps, and a hundredth of them does not: sparse ones are taken,
    // whatever the link of this machine is.
    publish(real_fs(), at("sparse.txt"),
            "ndtrain-convergence-1\nmodel net\nover drop\nreference_batch 12\nreference_drop 0.99\n"
            "largest_batch 12\npoint 1 0 1\npoint 1 0.5 1\npoint 1 0.99 0\npoint 1 0.999 0\n")
        .or_throw();
  }

  static Words chosen(const std::string& run_directory, const Words& more) {
    Words words = train(run_directory, {"--ranks", "2", "--sync", "auto", "--allow-lossy"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string settings(const std::string& run_directory) const {
    return real_fs().read(at(run_directory + "/args.toml")).or_throw();
  }
  // As the explicit flags that the word stands for.
  static Words flags_of(const std::string& word) {
    Words flags = {"--sync", "sparse"};
    if (word.starts_with("sparse:1")) flags.insert(flags.end(), {"--staleness", "1"});
    if (word.ends_with(":topk")) flags.insert(flags.end(), {"--compressor", "topk"});
    return flags;
  }
};

TEST_F(ExchangeChosen, SaysWhatWasTakenAndWhyAndTrains) {
  const Outcome o = run(chosen("run", {"-e", "2", "--json"}));
  ASSERT_EQ(o.code, 0) << o.err;
  const Json said = try_parse_json(o.out);
  const auto word = said.at("exchange").get<std::string>();
  EXPECT_GT(said.at("exchange_predicted_step_s").get<double>(), 0);
  EXPECT_THAT(o.err,
              AllOf(HasSubstr("auto: steps and the link are timed"), HasSubstr("auto: --sync "),
                    HasSubstr("; next --sync "), HasSubstr("measured: "), HasSubstr("a link of ")));
  const bool is_schedule = word == "auto";
  EXPECT_EQ(settings("run").find("sync = ") == std::string::npos, is_schedule) << word;
  EXPECT_EQ(said.contains("step_sent_bytes"), !is_schedule);
}

TEST_F(ExchangeChosen, WhatIsTakenIsWhatItsFlagsGive) {
  const Outcome o = run(chosen("run", {"-e", "2", "--json", "--convergence", "sparse.txt"}));
  ASSERT_EQ(o.code, 0) << o.err;
  const auto word = try_parse_json(o.out).at("exchange").get<std::string>();
  ASSERT_THAT(word, StartsWith("sparse:")) << o.err;
  EXPECT_THAT(o.err, HasSubstr("penalty "));
  EXPECT_THAT(settings("run"), AllOf(HasSubstr("sync = \"sparse\""), HasSubstr("drop = \"0.99\""),
                                     HasSubstr("ranks = \"2\"")));
  Words explicit_words = train("explicit", {"--ranks", "2", "-e", "2"});
  for (const std::string& flag : flags_of(word)) explicit_words.push_back(flag);
  ASSERT_EQ(run(explicit_words).code, 0);
  EXPECT_TRUE(model("run") == model("explicit"));

  const Outcome on = run(chosen("run", {"-e", "3", "--resume"}));
  ASSERT_EQ(on.code, 0) << on.err;
  EXPECT_THAT(on.err, Not(HasSubstr("are timed")));
  EXPECT_THAT(settings("run"), HasSubstr("sync = \"sparse\""));
  const Outcome three = run(train("run", {"-e", "4", "--resume", "--ranks", "3", "--shards", "3",
                                          "--sync", "auto", "--allow-lossy"}));
  EXPECT_EQ(three.code, 1);
  EXPECT_THAT(three.err, HasSubstr("--ranks is 3 and was 2"));
}

TEST_F(ExchangeChosen, EachWayIsGoneOnWithThatMayBeTaken) {
  for (const ExchangeMethod& method : slow_link_methods()) {
    SCOPED_TRACE(method.text());
    const std::string directory = "run of " + method.text();
    Words begun = train(directory, {"--ranks", "2", "-e", "1"});
    std::istringstream flags(method.flags());
    for (std::string word; flags >> word;) begun.push_back(word);
    ASSERT_EQ(run(begun).code, 0);
    const Outcome on = run(chosen(directory, {"-e", "2", "--resume"}));
    EXPECT_EQ(on.code, 0) << on.err;
    EXPECT_TRUE(real_fs().exists(at(directory + "/rank0-epoch2-step0.safetensors")));
  }
}

TEST_F(ExchangeChosen, RanksOfDifferentMachinesTakeTheSame) {
  const Pair pair = start_apart({"-e", "2", "--sync", "auto", "--allow-lossy", "--convergence",
                                 at("sparse.txt"), "--shards", "3", "--shares", "2:1"});
  const Outcome second = end_of(pair.second, "rank1"), first = end_of(pair.first, "rank0");
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(first.err, HasSubstr("auto: --sync sparse"));
  EXPECT_TRUE(real_fs().exists(at("run/rank0-epoch2-step0.safetensors")));
  EXPECT_TRUE(real_fs().exists(at("run1/rank1-epoch2-step0.safetensors")));
}

TEST_F(ExchangeChosen, WhatFlagsForbidIsNotTaken) {
  for (const auto& [flag, value] : {std::pair("--clip-norm", "1"), std::pair("--layer-decay", "1"),
                                    std::pair("--lr-of", "*=1")}) {
    const Outcome o = run(chosen(flag, {"-e", "1", "--json", "--convergence", "sparse.txt", flag,
                                        value, "--head", "linear"}));
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_THAT(try_parse_json(o.out).at("exchange").get<std::string>(), Not(StartsWith("sparse")));
  }
}

TEST_F(ExchangeChosen, ARunOfAnotherWayIsNotGoneOnWith) {
  ASSERT_EQ(
      run(train("run", {"-e", "1", "--ranks", "2", "--sync", "sparse", "--drop", "0.5"})).code, 0);
  const Outcome o = run(chosen("run", {"-e", "2", "--resume"}));
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err,
              HasSubstr("was begun with --sync sparse, which --sync auto --allow-lossy would "
                        "not take"));
  ASSERT_EQ(run(train("dense", {"-e", "1", "--ranks", "2"})).code, 0);
  const Outcome dense = run(chosen("dense", {"-e", "2", "--resume"}));
  EXPECT_EQ(dense.code, 0) << dense.err;
  EXPECT_EQ(settings("dense").find("sync = "), std::string::npos);
}

TEST_F(ExchangeChosen, FlagsThatMakeNoSenseAreUsageErrors) {
  const auto refused = [&](const Words& more) {
    const Outcome o = run(train("run", more));
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_FALSE(real_fs().exists(at("run")));
    return o.err;
  };
  const auto of_two = [&](Words more) {
    more.insert(more.begin(), {"--ranks", "2", "--sync", "auto", "--allow-lossy"});
    return refused(more);
  };
  EXPECT_THAT(refused({"--ranks", "2", "--allow-lossy"}),
              HasSubstr("--allow-lossy with --sync ddp"));
  EXPECT_THAT(refused({"--ranks", "2", "--allow-lossy", "--sync", "sparse"}),
              HasSubstr("--allow-lossy with --sync sparse"));
  EXPECT_THAT(refused({"--allow-lossy", "--sync", "auto"}), HasSubstr("one process sends nothing"));
  EXPECT_THAT(refused({"--ranks", "2", "--sync", "auto", "--convergence", "sparse.txt"}),
              HasSubstr("of --sync auto --allow-lossy: add one"));
  EXPECT_THAT(of_two({"--shard-optimizer"}), HasSubstr("--shard-optimizer with --allow-lossy"));
  EXPECT_THAT(of_two({"--shares", "measured"}), HasSubstr("--shares measured with --allow-lossy"));
  EXPECT_THAT(of_two({"--wire-dtype", "bf16"}), HasSubstr("--wire-dtype bf16 with --allow-lossy"));
  EXPECT_THAT(of_two({"--parallel", "pipeline"}), HasSubstr("--allow-lossy with --parallel"));
  const Outcome none = run(chosen("run", {"--convergence", "nowhere.txt"}));
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("nowhere.txt"));
}

}  // namespace
}  // namespace ndtrain
