// profile.json, network.json and plan.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "framework/core/publish.h"
#include "framework/pipeline/planner/graph_text.h"
#include "framework/pipeline/planner/model_profile_json.h"
#include "framework/pipeline/planner/pipeline_plan.h"
#include "framework/pipeline/planner/topology.h"
#include "framework/testing/memory_fs.h"
#include "tests/pipeline/planner/profiles.h"
#include "tests/support/paths.h"
#include "tests/support/replaced.h"

namespace ndtrain {
namespace {

using support::replaced;
using ::testing::HasSubstr;

template <typename Read>
std::string reading_refused(const Read& read) {
  try {
    read();
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

ModelProfile measured_profile(uint64_t seed) {
  Rng rng(seed, "profile");
  ModelProfile profile = testing::random_profile(rng, 1 + static_cast<int>(seed % 20), seed % 2);
  profile.batch = 64;
  profile.peak_bytes = 1e9;
  for (NodeProfile& n : profile.nodes) {
    n.forward.mean_s = rng.next_uniform();
    n.forward.deviation_s = rng.next_uniform();
    if (n.is_input()) continue;
    n.weight_gradient = {rng.next_uniform(), rng.next_uniform(), rng.next_uniform()};
    n.frozen_bytes = rng.next_uniform();
    if (rng.next_below(2) == 0) n.stage = static_cast<int>(rng.next_below(3));
  }
  return profile;
}

TEST(ModelProfileJson, EveryNumberComesBackAsItWasWritten) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const ModelProfile was = measured_profile(seed);
    EXPECT_EQ(parse_model_profile(to_json(was), "p.json"), was);
  }
}

TEST(ModelProfileJson, NodesAreWrittenInTheOrderInWhichTheyAreExecuted) {
  ModelProfile profile = testing::chain({{1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}});
  profile.nodes[0].inputs = {2};
  profile.nodes[2].inputs = {};
  const ModelProfile is = parse_model_profile(to_json(profile), "p.json");
  EXPECT_EQ(is.nodes[0].id, "n2");
  EXPECT_EQ(is.nodes[1].id, "n0");
  EXPECT_EQ(is.nodes[2].id, "n1");
  EXPECT_EQ(is.nodes[2].inputs, std::vector<int>{1});
}

TEST(ModelProfileJson, WhatIsWrongIsNamedWithItsEntry) {
  const std::string good = to_json(measured_profile(3));
  const auto why = [](const std::string& text) {
    return reading_refused([&] { parse_model_profile(text, "p.json"); });
  };
  EXPECT_THAT(why("{"), HasSubstr("profile p.json is "));
  EXPECT_THAT(why("[]"), HasSubstr("has no JSON object"));
  EXPECT_THAT(why(good.substr(0, good.size() / 2)), HasSubstr("profile p.json is "));
  EXPECT_THAT(why(replaced(good, "\"format\": 1", "\"format\": 2")),
              HasSubstr("has format 2; this program reads format 1"));
  EXPECT_THAT(why(replaced(good, "\"batch\"", "\"bath\"")),
              HasSubstr("has bath, which is no entry"));
  EXPECT_THAT(why(replaced(good, "\"saved_bytes\"", "\"kept_bytes\"")),
              HasSubstr("has nodes/1/kept_bytes, which is no entry"));
  EXPECT_THAT(why(replaced(good, "\"batch\": 64", "\"batch\": -1")),
              HasSubstr("has batch = -1, which is no integer from 0"));
  EXPECT_THAT(why(replaced(good, "\"median_s\": ", "\"median_s\": -")),
              HasSubstr("which is no number from 0 up"));
  EXPECT_THAT(why(replaced(good, "\"source\": \"a test\"", "\"source\": 3")),
              HasSubstr("has source = 3, which is no text"));
  EXPECT_THAT(why(replaced(good, "\"id\": \"n2\"", "\"id\": \"n1\"")), HasSubstr("'n1' twice"));
  EXPECT_THAT(why(replaced(good, "\"id\": \"input\"", "\"id\": \"n3\"")),
              HasSubstr("has 'input' in nodes/1/inputs, which is no node in front of it"));
}

TEST(ModelProfileJson, AFileIsReadAsWhatItBeginsAs) {
  MemoryFs fs;
  const ModelProfile profile = parse_graph_text(
      testing::read_text(support::source_path("/tests/pipeline/planner/golden/branched_graph.txt")),
      "g.txt");
  publish(fs, "g.txt", graph_text(profile)).or_throw();
  publish(fs, "p.json", to_json(profile)).or_throw();
  publish(fs, "large.json", std::string(limits::kProfileFile + 1, ' ')).or_throw();
  EXPECT_EQ(load_model_profile(fs, "g.txt"), profile);
  EXPECT_EQ(load_model_profile(fs, "p.json"), profile);
  EXPECT_THAT(reading_refused([&] { load_model_profile(fs, "large.json"); }),
              HasSubstr("profile large.json: "));
  EXPECT_THAT(reading_refused([&] { load_model_profile(fs, "none.json"); }),
              HasSubstr("profile none.json: "));
}

constexpr const char* kNetwork =
    R"({"allreduce_bandwidths": [300000000000, 25000000000],
        "p2p_bandwidths": [200000000000, 12500000000],
        "fully_connect": [true, false]})";

TEST(Network, AshPipesFileIsReadAndLatenciesMayBeThere) {
  const std::vector<int> units = {4, 2};
  const Topology t = parse_network(kNetwork, "n.json", units);
  ASSERT_EQ(t.levels.size(), 2u);
  EXPECT_EQ(t.devices(), 8);
  EXPECT_EQ(t.levels[1].units, 2);
  EXPECT_EQ(t.levels[1].all_reduce_bytes_per_s, 25e9);
  EXPECT_EQ(t.levels[0].p2p_bytes_per_s, 200e9);
  EXPECT_TRUE(t.levels[0].fully_connected);
  EXPECT_FALSE(t.levels[1].fully_connected);
  EXPECT_EQ(t.levels[1].p2p_s, 0);
  const Topology late =
      parse_network(replaced(kNetwork, "\"fully",
                             "\"allreduce_latencies\": [1e-5, 1e-4], \"p2p_latencies\": "
                             "[0, 2e-4], \"fully"),
                    "n.json", units);
  EXPECT_EQ(late.levels[1].all_reduce_s, 1e-4);
  EXPECT_EQ(late.levels[1].p2p_s, 2e-4);
  const std::string text = network_text(late);
  EXPECT_EQ(network_text(parse_network(text, "again.json", units)), text);
}

TEST(Network, WhatIsWrongIsNamedWithItsEntry) {
  const auto why = [](const std::string& text, std::vector<int> units = {4, 2}) {
    return reading_refused([&] { parse_network(text, "n.json", units); });
  };
  EXPECT_THAT(why("no"), HasSubstr("network n.json is "));
  EXPECT_THAT(why(replaced(kNetwork, "p2p_b", "p2pb")), HasSubstr("p2pbandwidths, which is no"));
  EXPECT_THAT(why(replaced(kNetwork, "true", "1")),
              HasSubstr("fully_connect/0 = 1, which is neither true nor false"));
  EXPECT_THAT(why(replaced(kNetwork, "12500000000", "0")), HasSubstr("p2p_bandwidths/1 = 0"));
  EXPECT_THAT(why(replaced(kNetwork, "12500000000", "-1")), HasSubstr("p2p_bandwidths/1 = -1"));
  EXPECT_THAT(why(kNetwork, {4}), HasSubstr("has 2 allreduce_bandwidths for 1 levels"));
}

TEST(Network, GroupsAreOnTheInnermostLevelThatHasThemAll) {
  const Topology t = parse_network(kNetwork, "n.json", std::vector<int>{4, 2});
  const auto level = [&](int first, int count) { return DeviceGroup{first, count}.level_in(t); };
  EXPECT_EQ(level(0, 4), 0u);
  EXPECT_EQ(level(4, 4), 0u);
  EXPECT_EQ(level(3, 1), 0u);
  EXPECT_EQ(level(3, 2), 1u);
  EXPECT_EQ((DeviceGroup{2, 5}.units_in(t, 1)), 2);
  EXPECT_EQ((DeviceGroup{2, 5}.units_in(t, 0)), 5);
}

TEST(Network, CollectivesAreHalvesOfAnAllReduce) {
  const Topology t = parse_network(kNetwork, "n.json", std::vector<int>{4, 2});
  CostProfile costs;
  set_collectives(t, {0, 8}, costs);
  EXPECT_EQ(costs.ranks, 8);
  EXPECT_DOUBLE_EQ(costs.all_reduce.beta_s_per_byte, 2 * 7 / (8 * 25e9));
  EXPECT_DOUBLE_EQ(costs.reduce_scatter.beta_s_per_byte, 7 / (8 * 25e9));
  set_collectives(t, {0, 4}, costs);  // a link to each
  EXPECT_DOUBLE_EQ(costs.all_reduce.beta_s_per_byte, 2 / (4 * 300e9));
}

PipelinePlan some_plan() {
  PipelinePlan plan{
      .model = "alexnet.onnx", .costs = "measured", .schedule = "async", .sync = "auto"};
  plan.stages = {{.nodes = {"a", "b"},
                  .replicas = 3,
                  .versions = 2,
                  .recompute = true,
                  .seconds = 0.1,
                  .memory_bytes = 1e9},
                 {.nodes = {"c"}, .seconds = 0.3}};
  plan.seconds = 0.3;
  plan.one_device_s = 1.0 / 3;
  plan.data_parallel_s = 2;
  plan.states = 5;
  return plan;
}

TEST(PlanJson, APlanComesBackAsItWasWritten) {
  const PipelinePlan was = some_plan();
  EXPECT_EQ(was.devices(), 4);
  EXPECT_EQ(parse_pipeline_plan(was.text(), "plan.json"), was);
}

TEST(PlanJson, TheVersionsOfAStageHaveALimit) {
  PipelinePlan plan = some_plan();
  plan.stages[0].versions = limits::kPlannedVersions;
  EXPECT_EQ(parse_pipeline_plan(plan.text(), "plan.json"), plan);
  ++plan.stages[0].versions;
  EXPECT_THAT(reading_refused([&] { parse_pipeline_plan(plan.text(), "plan.json"); }),
              HasSubstr("versions = 1048577, which is no integer from 1 to 1048576"));
}

TEST(PlanJson, WhatIsWrongIsNamedWithItsEntry) {
  const std::string good = some_plan().text();
  const auto why = [](const std::string& text) {
    return reading_refused([&] { parse_pipeline_plan(text, "plan.json"); });
  };
  EXPECT_THAT(why(good.substr(0, good.size() - 4)), HasSubstr("plan plan.json is "));
  EXPECT_THAT(why(replaced(good, "\"sync\"", "\"sink\"")), HasSubstr("has sink, which is no"));
  EXPECT_THAT(why(replaced(good, "\"replicas\": 3", "\"replicas\": 0")),
              HasSubstr("has stages/0/replicas = 0, which is no integer from 1 to 64"));
  EXPECT_THAT(why(replaced(good, "\"recompute\": true", "\"recompute\": 1")),
              HasSubstr("stages/0/recompute = 1, which is neither"));
  EXPECT_THAT(why(replaced(good, "\"c\"", "\"a\"")),
              HasSubstr("has node 'a' twice, the second time in stages/1/nodes"));
  EXPECT_THAT(why(replaced(good, "\"c\"", "")), HasSubstr("a stage without work"));
  PipelinePlan none = some_plan();
  none.stages.clear();
  EXPECT_THAT(why(none.text()), HasSubstr("lacks stages"));
}

}  // namespace
}  // namespace ndtrain
