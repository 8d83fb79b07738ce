// `train --parallel pipeline`: the model of one process, and what is refused.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <functional>

#include "framework/core/json.h"
#include "framework/core/publish.h"
#include "tests/cli/ranks_fixture.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_cli::Outcome;
using Words = std::vector<std::string>;

// On the cpu backend, whose kernels do not depend on what else is in a plan.
class StagedRanks : public testing_cli::RanksTest {
 protected:
  static Words train(const std::string& run_directory, const Words& more) {
    return RanksTest::train(run_directory, joined({"--device", "cpu"}, more));
  }
  static Words joined(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Outcome by_stages(const std::string& run_directory, const Words& more) {
    return run(train(run_directory, joined({"--ranks", "2", "--parallel", "pipeline"}, more)));
  }
  static inline const Words kOne = {"-e", "2", "--accumulate", "4", "--deterministic"};
  static inline const Words kFour = {"-e", "2", "--micro-batches", "4"};
};

TEST_F(StagedRanks, GiveTheModelOfOneProcessThatAccumulates) {
  ASSERT_EQ(run(train("one", kOne)).code, 0);
  const Outcome o = by_stages("two", joined(kFour, {"--json"}));
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(model("two") == model("one"));
  EXPECT_THAT(o.err, AllOf(HasSubstr("2 stages on 2 ranks: 1f1b, 4 micro-batches of 3 photos"),
                           HasSubstr("stage 1, rank 1: "), HasSubstr("KB of a photo go on"),
                           HasSubstr("waited for other ranks: rank 0 ")));
  const Json one = parse_json(run(train("again", joined(kOne, {"--json"}))).out);
  for (const char* what : {"top1", "val_loss", "best_epoch", "trained_parameters"}) {
    EXPECT_EQ(parse_json(o.out).at(what), one.at(what)) << what;
  }
  for (const Words& how :
       {Words{"--pipeline-schedule", "zb"}, Words{"--no-input-pipelining"}, Words{"--recompute"},
        Words{"--pipeline-schedule", "interleaved", "--stages-per-rank", "2"}}) {
    const Outcome other = by_stages(how.back(), joined(kFour, how));
    ASSERT_EQ(other.code, 0) << other.err;
    EXPECT_TRUE(model(how.back()) == model("one")) << how.back();
  }
}

TEST_F(StagedRanks, GiveTheAverageOfTheWeightsOfOneProcess) {
  const Words average = {"--ema", "0.8"};
  ASSERT_EQ(run(train("plain", kOne)).code, 0);
  ASSERT_EQ(run(train("one", joined(kOne, average))).code, 0);
  EXPECT_FALSE(model("one") == model("plain"));
  const Outcome o = by_stages("two", joined(kFour, average));
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(model("two") == model("one"));
}

TEST_F(StagedRanks, SeeTheAugmentedPhotosOfOneProcess) {
  const Words augmented = {"--augment", "crop,flip,cutout,jitter,randaugment"};
  ASSERT_EQ(run(train("one", joined(kOne, augmented))).code, 0);
  for (const char* schedule : {"1f1b", "zb"}) {
    const Outcome o =
        by_stages(schedule, joined(joined(kFour, augmented), {"--pipeline-schedule", schedule}));
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_TRUE(model(schedule) == model("one")) << schedule;
  }
}

TEST_F(StagedRanks, MeetAtARendezvous) {
  ASSERT_EQ(run(train("one", kOne)).code, 0);
  const Pair pair = start_apart(joined(kFour, {"--parallel", "pipeline", "--device", "cpu"}));
  for (const auto& [rank, name] :
       {std::pair(pair.second, "rank1"), std::pair(pair.first, "rank0")}) {
    const Outcome o = end_of(rank, name);
    EXPECT_EQ(o.code, 0) << o.err;
  }
  EXPECT_TRUE(model("run") == model("one"));
}

TEST_F(StagedRanks, GoOnWhereOneProcessStopsAndTheOtherWayRound) {
  ASSERT_EQ(run(train("one", kOne)).code, 0);
  const Words brief = {"-e", "1"}, one = {"--accumulate", "4", "--deterministic"},
              four = {"--micro-batches", "4"}, rest = {"-e", "2", "--resume"};
  ASSERT_EQ(run(train("first", joined(brief, one))).code, 0);
  const Outcome by_two = by_stages("first", joined(rest, four));
  ASSERT_EQ(by_two.code, 0) << by_two.err;
  EXPECT_TRUE(model("first") == model("one"));
  ASSERT_EQ(by_stages("second", joined(brief, four)).code, 0);
  const Outcome by_one = run(train("second", joined(rest, one)));
  ASSERT_EQ(by_one.code, 0) << by_one.err;
  EXPECT_TRUE(model("second") == model("one"));
  const Outcome other = by_stages("second", {"-e", "3", "--resume", "--micro-batches", "2"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("--accumulate is 2 and was 4"));
}

// In the same processes what a stop and a resumption give, and another model than either way alone.
TEST_F(StagedRanks, ThatShareRowsFirstGoOnAsStages) {
  const Words how = {"--ranks", "2", "--parallel", "dp:1,pipeline", "--micro-batches", "2"};
  const Outcome o = run(train("switched", joined(how, {"-e", "2", "--json"})));
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, AllOf(HasSubstr("2 stages on 2 ranks: 1f1b, 2 micro-batches"),
                           HasSubstr("from epoch 2 on ranks are stages")));
  EXPECT_GT(parse_json(o.out).at("step_s"), 0);
  const Outcome first = run(train("halves", joined(how, {"-e", "1"})));
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("all 1 epochs are by ranks that share the photos"));
  const Outcome rest = run(train("halves", joined(how, {"-e", "2", "--resume"})));
  ASSERT_EQ(rest.code, 0) << rest.err;
  const auto last = [&](const std::string& run_directory) {
    return real_fs().read(at(run_directory + "/last.safetensors")).or_throw();
  };
  EXPECT_TRUE(last("halves") == last("switched"));
  ASSERT_EQ(run(train("dp", {"--ranks", "2", "-e", "2"})).code, 0);
  EXPECT_FALSE(last("dp") == last("switched"));
  const Outcome other = run(train(
      "halves", joined({"--ranks", "2", "--parallel", "dp:2,pipeline", "--micro-batches", "2"},
                       {"-e", "3", "--resume"})));
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("--parallel is dp:2,pipeline and was dp:1,pipeline"));
}

// Photos that are shared out are summed in another order than one process has; each time the same.
TEST_F(StagedRanks, OfSeveralRanksGiveTheSameEachTime) {
  const Words three = {"--ranks",    "3",   "--parallel",      "pipeline",
                       "--replicas", "2,1", "--micro-batches", "2"};
  const Outcome o = run(train("shared", joined(three, {"-e", "2", "--json"})));
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, AllOf(HasSubstr("stage 0, ranks 0 to 1, which share the photos: "),
                           HasSubstr("stage 1, rank 2: ")));
  EXPECT_GT(parse_json(o.out).at("step_s"), 0);
  ASSERT_EQ(parse_json(o.out).at("rank_memory_bytes").size(), 3U);
  EXPECT_GT(parse_json(o.out).at("rank_memory_bytes")[2], 0);
  ASSERT_EQ(parse_json(o.out).at("rank_waited_s").size(), 3U);
  ASSERT_EQ(run(train("halves", joined(three, {"-e", "1", "--sync", "dear"}))).code, 0);
  const Words rest = {"-e", "2", "--resume"};
  const Outcome on = run(train("halves", joined(three, joined(rest, {"--sync", "wfbp"}))));
  ASSERT_EQ(on.code, 0) << on.err;
  EXPECT_TRUE(model("halves") == model("shared"));
  const Outcome other =
      run(train("halves", {"-e", "3", "--resume", "--ranks", "3", "--parallel", "pipeline",
                           "--replicas", "1,2", "--micro-batches", "2"}));
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("--replicas is 1,2 and was 2,1"));
}

// Drained behind each step it computes on the newest parameters, as one process; gone on with it is
// what was not stopped.
TEST_F(StagedRanks, AsynchronousOnesAreDrainedAsTheyAreAsked) {
  ASSERT_EQ(run(train("one", kOne)).code, 0);
  const Words async = joined(kFour, {"--pipeline-schedule", "async"});
  const Outcome o = by_stages("drained", joined(async, {"--drain-every", "1"}));
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, AllOf(HasSubstr("2 stages on 2 ranks: async, 4 micro-batches of 3 photos"),
                           HasSubstr("; all is applied behind every 1 steps of an epoch")));
  EXPECT_TRUE(model("drained") == model("one"));
  const Outcome late = by_stages("late", async);
  ASSERT_EQ(late.code, 0) << late.err;
  EXPECT_THAT(late.err, HasSubstr("behind every 100 steps"));
  EXPECT_FALSE(model("late") == model("one"));
  ASSERT_EQ(
      by_stages("halves", {"-e", "1", "--pipeline-schedule", "async", "--micro-batches", "4"}).code,
      0);
  const Outcome made_up =
      by_stages("made-up", joined(async, {"--staleness", "delay-compensation:50,lr-scale:9"}));
  ASSERT_EQ(made_up.code, 0) << made_up.err;
  EXPECT_FALSE(model("made-up") == model("late"));
  ASSERT_EQ(by_stages("halves", joined(async, {"--resume"})).code, 0);
  EXPECT_TRUE(model("halves") == model("late"));
  const Outcome repeated = run({"train", "--config", "late/args.toml", "-o", "repeated"});
  ASSERT_EQ(repeated.code, 0) << repeated.err;
  EXPECT_TRUE(model("repeated") == model("late"));
  const Words longer = {"-e", "3", "--resume"};
  const Outcome otherwise = by_stages("late", joined(longer, {"--micro-batches", "4"}));
  EXPECT_EQ(otherwise.code, 1);
  EXPECT_THAT(otherwise.err, HasSubstr("--pipeline-schedule is not given and was async"));
  const Outcome alone =
      run(train("late", joined(longer, {"--accumulate", "4", "--deterministic"})));
  EXPECT_EQ(alone.code, 1);
  EXPECT_THAT(alone.err, HasSubstr("--parallel is not given and was pipeline"));
}

// A plan of two stages, by the names of the nodes that a run says they begin and end with.
// What ndtrain profile measures and ndtrain plan train makes of it.
class PlannedStages : public StagedRanks {
 protected:
  void SetUp() override {
    StagedRanks::SetUp();
    const Outcome profile = run({"profile", "-m", "m.onnx", "-b", "12", "--steps", "2", "--device",
                                 "cpu", "-o", "profile.json"});
    ASSERT_EQ(profile.code, 0) << profile.err;
    publish(real_fs(), at("network.json"),
            R"({"allreduce_bandwidths": [1e8], "p2p_bandwidths": [1e8], "fully_connect": [false]})")
        .or_throw();
    const Outcome plan =
        run({"plan", "train", "--profile", "profile.json", "-n", "2", "--network", "network.json",
             "--preset", "pipeline", "--schedule", "gpipe", "--no-recompute", "-o", "plan.json"});
    ASSERT_EQ(plan.code, 0) << plan.err;
    plan_ = parse_json(real_fs().read(at("plan.json")).or_throw());
    ASSERT_EQ(plan_["stages"].size(), 2U);
    plan_["micro_batches"] = 3;  // whatever was fast here
  }
  Outcome planned(const Json& plan, const Words& more = {}, const std::string& epochs = "1") {
    publish(real_fs(), at("plan.json"), plan.dump()).or_throw();
    return by_stages("planned", joined({"-e", epochs, "--plan", "plan.json"}, more));
  }
  Json plan_;
};

TEST_F(PlannedStages, AreTrainedAsThePlanSays) {
  const Outcome o = planned(plan_);
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("2 stages on 2 ranks: gpipe, 3 micro-batches"));
  ASSERT_EQ(run(train("one", {"-e", "1", "--accumulate", "3", "--deterministic"})).code, 0);
  EXPECT_TRUE(model("planned") == model("one"));
  std::filesystem::remove_all(at("planned"));
  Json twice = plan_;
  twice["stages"][0]["recompute"] = true;
  const Outcome again = planned(twice);
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, AllOf(ContainsRegex("stage 0, .*; forward computed twice"),
                               Not(ContainsRegex("stage 1, .*; forward computed twice"))));
  EXPECT_TRUE(model("planned") == model("one"));
  std::filesystem::remove_all(at("planned"));
  Json late = plan_;
  late["schedule"] = "async";
  late["stages"][0]["versions"] = 2;
  const Outcome other = planned(late, {"--pipeline-schedule", "1f1b"});
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_TRUE(model("planned") == model("one")) << "its stages by another schedule";
  std::filesystem::remove_all(at("planned"));
  const Outcome its_own = planned(late);
  ASSERT_EQ(its_own.code, 0) << its_own.err;
  EXPECT_THAT(its_own.err, HasSubstr("2 stages on 2 ranks: async, 3 micro-batches"));
  EXPECT_THAT(its_own.err, ContainsRegex("stage 0, .*; 2 versions of its parameters"));
}

TEST_F(PlannedStages, OnSeveralRanksExchangeGradients) {
  Json hybrid = plan_;
  hybrid["stages"][0]["replicas"] = 2;
  hybrid["sync"] = "auto";
  const Outcome o = planned(hybrid, {"--ranks", "3"}, "4");
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, AllOf(HasSubstr("stage 0, ranks 0 to 1, which share the photos"),
                           HasSubstr("stage 0: auto: measured collectives in ")));
  const Outcome both = planned(hybrid, {"--ranks", "3", "--replicas", "2,1"});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("--replicas with --plan"));
}

TEST_F(PlannedStages, AreRefusedWhereTheyCannotBeTrained) {
  const auto refused = [&](const std::function<void(Json&)>& change, const Words& more = {}) {
    Json plan = plan_;
    change(plan);
    const Outcome o = planned(plan, more);
    EXPECT_NE(o.code, 0);
    EXPECT_FALSE(real_fs().exists(at("planned/args.toml")));
    return o.err;
  };
  EXPECT_THAT(refused([](Json& p) { p["stages"][0]["replicas"] = 2; }),
              HasSubstr("has 2 stages on 3 devices; 2 ranks of 1 have 2"));
  EXPECT_THAT(refused([](Json& p) { p["stages"][1]["nodes"].push_back("layer9"); }),
              HasSubstr("'layer9' in stage 1"));
  EXPECT_THAT(refused([](Json& p) { p["stages"][0]["nodes"].erase(0); }),
              HasSubstr("no stage for the node"));
  EXPECT_THAT(refused([](Json& p) { p["micro_batches"] = 13; }),
              HasSubstr("--batch 12 but 13 micro-batches"));
  EXPECT_THAT(refused([](Json&) {}, {"--ranks", "3"}),
              HasSubstr("has 2 stages on 2 devices; 3 ranks of 1"));
  EXPECT_THAT(refused([](Json& p) { p.erase("states"); }), HasSubstr("plan.json"));
}

TEST_F(StagedRanks, FlagsThatDoNotGoWithStagesAreRefusedByName) {
  for (const auto& [more, what] : std::vector<std::pair<Words, std::string>>{
           {{"--sync", "dear"}, "--sync with --parallel pipeline: stages on a rank each"},
           {{"--replicas", "2,1"}, "--replicas 2,1: there are 2 ranks"},
           {{"--replicas", "2,0"}, "--replicas 2,0: whole numbers from 1 to 2"},
           {{"--replicas", "2", "--sync", "soon"}, "--sync soon: "},
           {{"--replicas", "2", "--stages-per-rank", "2"}, "is the only one of each"},
           {{"--replicas", "2", "-b", "1", "--micro-batches", "1"},
            "--batch 1 but a stage is on 2"},
           {{"--bucket-size", "1"}, "--bucket-size with"},
           {{"--shares", "2:1"}, "--shares with"},
           {{"--shards", "2"}, "--shards with"},
           {{"--shard-optimizer"}, "--shard-optimizer with"},
           {{"--wire-dtype", "bf16"}, "--wire-dtype with"},
           {{"--comm-only", "rs"}, "--comm-only with"},
           {{"--trace", "t.json"}, "--trace with"},
           {{"--clip-norm", "1"}, "--clip-norm 1 with"},
           {{"--compute", "f16"}, "--compute f16 with"},
           {{"--on-rank-loss", "regroup"}, "no other rank has what a lost stage had"},
           {{"--staleness", "predict"}, "--staleness with the schedule 1f1b, which computes on"},
           {{"--pipeline-schedule", "async", "--staleness", "luck"}, "--staleness luck: "},
           {{"--pipeline-schedule", "async", "--opt", "adam", "--staleness", "predict"},
            "--staleness predict: "},
           {{"--drain-every", "5"}, "--drain-every with the schedule 1f1b, which is drained"},
           {{"--pipeline-schedule", "async", "--drain-every", "0"}, "--drain-every 0: at least 1"},
           {{"--pipeline-schedule", "soon"}, "--pipeline-schedule soon"},
           {{"--pipeline-schedule", "zb", "--no-input-pipelining"}, "leave one away"},
           {{"--stages-per-rank", "2", "--pipeline-schedule", "zb"}, "zb has one stage a rank"},
           {{"--stages-per-rank", "33"}, "--stages-per-rank 33: 1 to 32"},
           {{"--micro-batches", "0"}, "at least 1"},
           {{"--micro-batches", "13"}, "--batch 12 but 13 micro-batches"},
           {{"--micro-batches", "4", "--accumulate", "2"}, "which are 2; leave one away"},
           {{"--parallel", "dp:1,hybrid", "--trace", "t.json"}, "--trace with"},
           {{"--parallel", "dp:0,hybrid"}, "--parallel 0: whole numbers from 1"},
           {{"--parallel", "dp:2"}, "--parallel dp:2: there are dp, pipeline, hybrid"},
           {{"--parallel", "zeppelin"}, "there are dp, pipeline, hybrid"}}) {
    const Outcome o = by_stages("run", more);
    EXPECT_EQ(o.code, 2) << what;
    EXPECT_THAT(o.err, HasSubstr(what));
    EXPECT_FALSE(real_fs().exists(at("run")));
  }
  const Outcome alone = run(train("run", {"--parallel", "pipeline"}));
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, HasSubstr("give --ranks 2 or more"));
  for (const Words& flag :
       {Words{"--micro-batches", "2"}, Words{"--plan", "p.json"}, Words{"--no-input-pipelining"},
        Words{"--recompute"}, Words{"--drain-every", "5"}, Words{"--staleness", "predict"}}) {
    const Outcome o = run(train("run", flag));
    EXPECT_EQ(o.code, 2);
    EXPECT_THAT(o.err, HasSubstr(flag[0] + " is of --parallel pipeline"));
  }
}

TEST_F(StagedRanks, ThatDifferInTheirScheduleAreRefused) {
  const Pair pair =
      start_apart({"-e", "2", "--parallel", "pipeline"}, {"--pipeline-schedule", "gpipe"});
  const Outcome second = end_of(pair.second, "rank1"), first = end_of(pair.first, "rank0");
  for (const Outcome& o : {first, second}) {
    EXPECT_EQ(o.code, 1) << o.err;
    EXPECT_THAT(o.err, HasSubstr("--pipeline-schedule is gpipe, not 1f1b"));
  }
}

TEST_F(StagedRanks, OneThatIsLostEndsTheRunWhichGoesOnWithResume) {
  const Words many = {"-e", "60", "--accumulate", "4"};
  ASSERT_EQ(run(train("one", joined(many, {"--deterministic"}))).code, 0);
  const Pair pair = start_apart(
      joined(many, {"--parallel", "pipeline", "--rank-timeout", "5", "--device", "cpu"}));
  wait_for("run/last.safetensors");
  kill(pair.second, SIGKILL);
  end_of(pair.second, "rank1");
  const Outcome first = end_of(pair.first, "rank0");
  ASSERT_EQ(first.code, 4) << first.err;
  EXPECT_THAT(first.err, AllOf(HasSubstr("lacks rank 1"), HasSubstr("--resume goes on")));
  const Outcome resumed = by_stages("run", joined(many, {"--resume"}));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(model("run") == model("one"));
}

}  // namespace
}  // namespace ndtrain
