// Plans of AshPipe's partitioner. Those of the branched graph are kept here; the others are those
// of ../shared/golden.
#include <gtest/gtest.h>

#include <filesystem>

#include "framework/core/json.h"
#include "framework/pipeline/planner/graph_text.h"
#include "framework/pipeline/planner/planner.h"
#include "tests/pipeline/planner/profiles.h"
#include "tests/support/paths.h"

namespace ndtrain {
namespace {

constexpr double kRounding = 1e-12;  // of the value

Topology topology_of(const Json& c) {
  Topology topology;
  for (size_t l = 0; l < c.at("levels").size(); ++l) {
    topology.levels.push_back(
        {.units = c.at("levels")[l].get<int>(),
         .all_reduce_bytes_per_s = c.at("allreduce_bandwidths")[l].get<double>(),
         .p2p_bytes_per_s = c.at("p2p_bandwidths")[l].get<double>(),
         .fully_connected = c.at("fully_connect")[l].get<bool>()});
  }
  if (!c.at("memory_bytes").is_null()) topology.memory_bytes = c.at("memory_bytes").get<double>();
  return topology;
}

ModelProfile profile_of(const Json& c, const std::string& folder) {
  const std::string path = folder + c.at("graph").get<std::string>();
  ModelProfile profile = parse_graph_text(testing::read_text(path), path);
  for (NodeProfile& n : profile.nodes) {
    if (n.is_input() && !c.at("load_term").get<bool>()) n.input_gradient = {};
  }
  return profile;
}

void check_case(const Json& c, const std::string& folder) {
  const bool straight = c.at("straight_pipeline").get<bool>();
  const PipelinePlan plan =
      plan_pipeline(profile_of(c, folder), topology_of(c),
                    {.published_costs = true,
                     .preset = straight ? PlanPreset::kPipeline : PlanPreset::kHybrid,
                     .recompute = c.at("recompute").get<bool>(),
                     .minibatch_ratio = c.at("minibatch_ratio").get<double>()});
  const Json& expected = c.at("expected");
  EXPECT_EQ(plan.states, expected.at("states").get<int>());
  const auto close = [&](double is, const char* name) {
    const double was = expected.at(name).get<double>();
    EXPECT_NEAR(is, was, kRounding * was) << name;
  };
  close(plan.seconds, "seconds");
  close(plan.one_device_s, "one_device_s");
  close(plan.data_parallel_s, "data_parallel_s");
  ASSERT_EQ(plan.stages.size(), expected.at("stages").size());
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const Json& stage = expected.at("stages")[s];
    EXPECT_EQ(plan.stages[s].nodes, stage.at("nodes").get<std::vector<std::string>>());
    EXPECT_EQ(plan.stages[s].replicas, stage.at("replicas").get<int>());
    EXPECT_LE(plan.stages[s].seconds, plan.seconds);
  }
}

void check_cases(const std::string& file, const std::string& folder, size_t cases) {
  const Json golden = parse_json(testing::read_text(file));
  EXPECT_EQ(golden.at("cases").size(), cases);
  for (const Json& c : golden.at("cases")) {
    SCOPED_TRACE(c.at("name").get<std::string>());
    check_case(c, folder);
  }
}

TEST(PublishedPlans, ABranchedGraphHasThePublishedPlans) {
  const std::string folder = support::source_path("/tests/pipeline/planner/golden/");
  check_cases(folder + "branched_plans.json", folder, 3);
}

TEST(PublishedPlans, AllNineAreThePublishedOnes) {
  const std::string folder = support::shared_path("/golden/");
  if (!std::filesystem::exists(folder + "plans.json")) GTEST_SKIP() << folder << " is absent";
  check_cases(folder + "plans.json", folder, 9);
}

}  // namespace
}  // namespace ndtrain
