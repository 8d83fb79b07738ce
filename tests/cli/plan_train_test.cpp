// ndtrain plan train as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "framework/pipeline/planner/graph_text.h"
#include "framework/pipeline/planner/model_profile_json.h"
#include "framework/pipeline/planner/pipeline_plan.h"
#include "tests/cli/program_fixture.h"
#include "tests/support/paths.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing_cli::Outcome;

class PlanTrainProgram : public testing_cli::ProgramTest {
 protected:
  void SetUp() override {
    write("network.json", R"({"allreduce_bandwidths": [12000000000, 1250000000],
                              "p2p_bandwidths": [12000000000, 1250000000],
                              "fully_connect": [true, false]})");
    write("slow.json", R"({"allreduce_bandwidths": [25000000], "p2p_bandwidths": [25000000],
                           "fully_connect": [false]})");
  }

  void write(const std::string& name, const std::string& text) const {
    publish(real_fs(), at(name), text).or_throw();
  }

  Outcome plan(std::vector<std::string> words) const {
    words.insert(words.begin(), {"plan", "train"});
    return run(words);
  }
  nlohmann::json planned(std::vector<std::string> words) const {
    words.insert(words.begin(), {"--json", "--profile", graph_});
    const Outcome o = plan(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return nlohmann::json::parse(o.out);
  }
  nlohmann::json on_slow(std::vector<std::string> words) const {
    words.insert(words.begin(), {"-n", "2", "--network", "slow.json"});
    return planned(words);
  }

  const std::string graph_ =
      support::source_path("/tests/pipeline/planner/golden/branched_graph.txt");
};

TEST_F(PlanTrainProgram, ByAshPipesCostsItIsThePublishedPlanHoweverLevelsAreWritten) {
  const std::vector<std::string> cost = {"--network", "network.json", "--cost", "ashpipe"};
  std::vector<nlohmann::json> plans;
  for (const auto& levels : std::vector<std::vector<std::string>>{
           {"-n", "2", "2"}, {"-n", "2,2"}, {"-n", "2", "-n", "2"}, {"--devices=2,2"}}) {
    std::vector<std::string> words = levels;
    words.insert(words.end(), cost.begin(), cost.end());
    plans.push_back(planned(words));
    EXPECT_EQ(plans.back(), plans.front());
  }
  const nlohmann::json& plan = plans.front();
  EXPECT_EQ(plan.at("costs"), "ashpipe");
  EXPECT_EQ(plan.at("states"), 10);
  ASSERT_EQ(plan.at("stages").size(), 3u);
  EXPECT_EQ(plan.at("stages")[0].at("nodes"), (nlohmann::json{"node2", "node3", "node4"}));
  EXPECT_EQ(plan.at("stages")[0].at("replicas"), 2);
  EXPECT_NEAR(plan.at("data_parallel_s").get<double>(), 0.06302, 1e-9);
}

TEST_F(PlanTrainProgram, ThePlanIsPrintedAndWrittenAndSoAreTheStagesOfItsNodes) {
  const Outcome o = plan({"--profile", graph_, "-n", "2", "--network", "slow.json",
                          "--micro-batches", "1", "-o", "plan.json", "--save-graph", "stages.txt"});
  ASSERT_EQ(o.code, 0) << o.err;
  const PipelinePlan plan = load_pipeline_plan(real_fs(), at("plan.json"));
  EXPECT_EQ(plan.model, graph_);
  EXPECT_EQ(plan.devices(), 2);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_THAT(o.out, HasSubstr("async, 1 micro-batch: "));
  EXPECT_THAT(o.out, HasSubstr("by measured costs"));
  EXPECT_THAT(o.out, HasSubstr("node2 to "));
  const ModelProfile staged = load_model_profile(real_fs(), at("stages.txt"));
  EXPECT_EQ(staged.nodes.front().stage, 0);  // the input
  EXPECT_EQ(staged.nodes[1].stage, 0);
  EXPECT_EQ(staged.nodes.back().stage, 1);
  for (const auto& [name, text] :
       {std::pair("stages.dot", "digraph {"), std::pair("stages.csv", "node,description,")}) {
    ASSERT_EQ(
        this->plan({"--profile", graph_, "-n", "2", "--network", "slow.json", "--save-graph", name})
            .code,
        0);
    EXPECT_THAT(real_fs().read(at(name)).or_throw(), ::testing::StartsWith(text));
  }
}

TEST_F(PlanTrainProgram, OurOwnProfileGivesTheSamePlanAsTheGraph) {
  ModelProfile profile = load_model_profile(real_fs(), graph_);
  profile.model = "branched.onnx";
  write("profile.json", to_json(profile));
  const Outcome o =
      plan({"--json", "--profile", "profile.json", "-n", "2", "--network", "slow.json"});
  ASSERT_EQ(o.code, 0) << o.err;
  nlohmann::json own = nlohmann::json::parse(o.out), graph = on_slow({});
  EXPECT_EQ(own.at("model"), "branched.onnx");
  graph["model"] = own["model"];
  EXPECT_EQ(own, graph);
}

TEST_F(PlanTrainProgram, PresetsRestrictWhatIsLookedFor) {
  EXPECT_EQ(on_slow({"--preset", "dp"}).at("stages").size(), 1u);
  const nlohmann::json pipeline = on_slow({"--preset", "pipeline"});
  EXPECT_EQ(pipeline.at("stages").size(), 2u);
  EXPECT_EQ(on_slow({"--preset", "hybrid"}), on_slow({}));
  EXPECT_LE(on_slow({}).at("seconds"), pipeline.at("seconds"));
}

TEST_F(PlanTrainProgram, FlagsChangeThePlanAsTheySay) {
  const nlohmann::json plain = on_slow({"--preset", "pipeline"});
  EXPECT_EQ(on_slow({"--schedule", "1f1b"}).at("schedule"), "1f1b");
  EXPECT_NEAR(on_slow({"--preset", "pipeline", "--minibatch-ratio", "2"}).at("seconds"),
              2 * plain.at("seconds").get<double>(), 1e-9);
  EXPECT_LT(on_slow({"--preset", "pipeline", "--activation-compression", "100"}).at("seconds"),
            plain.at("seconds"));
  EXPECT_LT(on_slow({"--compress-branches"}).at("states"), 10);
  EXPECT_EQ(on_slow({"--states", "1000000"}), on_slow({}));
  EXPECT_EQ(on_slow({"--use-fewer", "--activation-compression", "0.0001"}).at("stages").size(), 1u);
  // Twice the rows do not fit as they did: computed again, or, where that is refused, by a schedule
  // that keeps less; ranks that share rows take fewer of them at once.
  const std::vector<std::string> tight = {"--preset", "pipeline", "--minibatch-ratio",
                                          "2",        "--memory", "110M"};
  EXPECT_EQ(on_slow(tight).at("stages")[0].at("recompute"), true);
  std::vector<std::string> words = tight;
  words.emplace_back("--no-recompute");
  const nlohmann::json kept = on_slow(words);
  const nlohmann::json few =
      on_slow({"--preset", "dp", "--minibatch-ratio", "8", "--memory", "180M"});
  EXPECT_GT(few.at("micro_batches"), 1);
  EXPECT_LE(few.at("stages")[0].at("memory_bytes").get<double>(), 180 * 1048576.0);
  for (const nlohmann::json& stage : kept.at("stages")) {
    EXPECT_EQ(stage.at("recompute"), false);
    EXPECT_LE(stage.at("memory_bytes").get<double>(), 110 * 1048576.0);
  }
}

TEST_F(PlanTrainProgram, DrawsTheInstructionsAndSaysWhatTheyTake) {
  const Outcome o = plan({"--profile", graph_, "-n", "2", "--network", "slow.json", "--preset",
                          "pipeline", "--draw", "plan.svg"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("by its instructions in virtual time "));
  const std::string svg = real_fs().read(at("plan.svg")).or_throw();
  EXPECT_THAT(svg, ::testing::StartsWith("<svg"));
  EXPECT_THAT(svg, HasSubstr(">stage 0<"));
  EXPECT_THAT(svg, HasSubstr(">stage 1<"));
  EXPECT_THAT(svg, ::testing::Not(HasSubstr(">stage 2<")));
  const nlohmann::json json = on_slow({"--preset", "pipeline", "--draw", "plan.svg"});
  EXPECT_NEAR(json.at("played_s"), json.at("seconds"), 0.5 * json.at("seconds").get<double>());
  EXPECT_FALSE(on_slow({}).contains("played_s"));
  for (const char* cost : {"measured", "ashpipe"}) {
    EXPECT_GT(on_slow({"--cost", cost, "--preset", "dp", "--draw", "plan.svg"}).at("played_s"), 0);
  }
}

TEST_F(PlanTrainProgram, TakesTheNetworkThatRanksMeasure) {
  const Outcome o = run({"plan", "network", "--ranks", "4", "--levels", "2,2", "--seconds", "0.05",
                         "-o", "measured.json", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(nlohmann::json::parse(o.out),
            nlohmann::json::parse(real_fs().read(at("measured.json")).or_throw()));
  EXPECT_GT(nlohmann::json::parse(o.out).at("p2p_bandwidths")[1], 1e6);
  const nlohmann::json on = planned({"-n", "2", "2", "--network", "measured.json"});
  EXPECT_GE(on.at("stages").size(), 1u);
  const auto refused = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"plan", "network"});
    const Outcome wrong = run(words);
    EXPECT_EQ(wrong.code, 2) << wrong.err;
    return wrong.err;
  };
  EXPECT_THAT(refused({}), HasSubstr("--ranks 1: a link is between 2 ranks"));
  EXPECT_THAT(refused({"--ranks", "2", "--levels", "2,2"}), HasSubstr("4 ranks in all"));
  EXPECT_THAT(refused({"--ranks", "2", "--levels", "1,2"}), HasSubstr("of levels of 2 at least"));
  EXPECT_THAT(refused({"--ranks", "2", "--seconds", "0"}), HasSubstr("--seconds 0"));
}

// By ranks that sleep: what is measured is the schedule of the plan, and no machine.
TEST_F(PlanTrainProgram, ReplaysAPlan) {
  ASSERT_EQ(plan({"--profile", graph_, "-n", "3", "--network", "slow.json", "--preset", "pipeline",
                  "-o", "plan.json", "-q"})
                .code,
            0);
  const auto replayed = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"bench",     "stages", "--plan",    "plan.json",
                                      "--profile", graph_,   "--network", "slow.json"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const Outcome o = replayed({"--schedule", "async,zb", "--micro-batches", "3", "--mini-batches",
                              "4", "--stretch", "1", "--scale", "10", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  const nlohmann::json json = nlohmann::json::parse(o.out);
  EXPECT_EQ(json.at("ranks"), 3);
  EXPECT_EQ(json.at("bytes_divided_by"), 10);
  EXPECT_EQ(json.at("times_multiplied_by"), 1);
  ASSERT_EQ(json.at("schedules").size(), 2u);
  for (const nlohmann::json& s : json.at("schedules")) {
    EXPECT_EQ(s.at("micro_batches"), 3);
    EXPECT_GT(s.at("measured_s").get<double>(), 0.9 * s.at("predicted_s").get<double>());
  }
  EXPECT_EQ(json.at("schedules")[1].at("schedule"), "zb");
  const auto refused = [&](const std::vector<std::string>& more, int code = 2) {
    const Outcome wrong = replayed(more);
    EXPECT_EQ(wrong.code, code) << wrong.err;
    return wrong.err;
  };
  EXPECT_THAT(refused({"--schedule", "soon"}), HasSubstr("schedule soon: "));
  EXPECT_THAT(refused({"--mini-batches", "0"}), HasSubstr("--mini-batches 0: 1 to"));
  EXPECT_THAT(refused({"--micro-batches", "0"}), HasSubstr("--micro-batches 0: 1 to"));
  EXPECT_THAT(refused({"--stretch", "0"}), HasSubstr("--stretch 0"));
  EXPECT_THAT(refused({"--rank", "3", "--rendezvous", "127.0.0.1:1"}), HasSubstr("--rank 3: 0 to"));
  EXPECT_THAT(refused({"--rank", "1"}), HasSubstr("--rank and --rendezvous HOST:PORT belong"));
  EXPECT_THAT(refused({"--insecure"}), HasSubstr("--insecure: the ranks that are started here"));
}

TEST_F(PlanTrainProgram, SaysWhatIsWrongWithWhatItWasGiven) {
  const auto refused = [&](const std::vector<std::string>& words, int code,
                           const std::string& what) {
    const Outcome o = plan(words);
    EXPECT_EQ(o.code, code) << o.err;
    EXPECT_THAT(o.err, HasSubstr(what));
  };
  const auto wrong = [&](std::vector<std::string> words, int code, const std::string& what) {
    words.insert(words.begin(), {"--profile", graph_, "--network", "slow.json"});
    refused(words, code, what);
  };
  refused({}, 2, "--profile is missing");
  refused({"--profile", graph_}, 2, "--network is missing");
  wrong({}, 2, "-n is missing: devices of a machine, machines, as -n 4 2");
  wrong({"-n", "2", "2"}, 1, "has 1 allreduce_bandwidths for 2 levels");
  wrong({"-n", "0"}, 2, "--devices 0");
  wrong({"-n", "1-4"}, 2, "a level has one number of units");
  wrong({"-n", "2", "--cost", "mine"}, 2, "--cost mine: there are measured and ashpipe");
  wrong({"-n", "2", "--cost", "ashpipe", "--schedule", "1f1b"}, 2, "knows async alone");
  wrong({"-n", "2", "--micro-batches", "0"}, 2, "--micro-batches 0: 1 to 32");
  wrong({"-n", "2", "--schedule", "fast"}, 2, "there are auto, async, 2bw, zb, 1f1b, gpipe");
  wrong({"-n", "2", "--preset", "data"}, 2, "there are hybrid, dp, pipeline");
  wrong({"-n", "2", "--minibatch-ratio", "0"}, 2, "--minibatch-ratio 0");
  wrong({"-n", "2", "--activation-compression", "x"}, 2, "--activation-compression x");
  wrong({"-n", "2", "--states", "0"}, 2, "--states 0");
  wrong({"-n", "2", "--states", "1000001"}, 2, "--states 1000001: 1 to 1000000");
  wrong({"-n", "2", "--states", "9"}, 1, "more than 9 states");
  wrong({"-n", "2", "--memory", "1M"}, 1, "no plan fits into ");
  refused({"--profile", "none.txt", "-n", "2", "--network", "slow.json"}, 1, "none.txt");
  const std::string graph = real_fs().read(graph_).or_throw();
  write("torn.txt", graph.substr(0, graph.size() - 4));
  refused({"--profile", "torn.txt", "-n", "2", "--network", "slow.json"}, 1,
          "graph torn.txt line 16: ");
}

}  // namespace
}  // namespace ndtrain
