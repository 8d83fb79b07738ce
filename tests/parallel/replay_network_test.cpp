#include "framework/parallel/replay_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/core/publish.h"
#include "framework/parallel/cost_profile_json.h"
#include "framework/parallel/schedules/schedules.h"
#include "framework/parallel/simulate.h"
#include "framework/testing/memory_fs.h"
#include "framework/train/parameter_space.h"
#include "tests/parallel/random_costs.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<ReplayNetwork> loaded(const std::string& text) {
  MemoryFs fs;
  publish(fs, "n.json", text).or_throw();
  return load_replay_networks(fs, "n.json");
}

std::string networks_refusal(const std::string& text) {
  try {
    loaded(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

constexpr const char* kTwoNetworks = R"({"about": {}, "networks": {
  "b": {"layers_elements_backward_s_forward_s": [[32, 2, 1], [64, 4, 3]], "alpha_s": 0.5,
        "beta_s_per_element": 0.25, "expected": {}},
  "a": {"layers_elements_backward_s_forward_s": [[16, 1, 1]], "alpha_s": 0,
        "beta_s_per_element": 0}}})";

TEST(ReplayNetwork, PublishedOnesHaveHalvesOfTheirAllReduce) {
  const std::vector<ReplayNetwork> networks = loaded(kTwoNetworks);
  ASSERT_EQ(networks.size(), 2u);
  EXPECT_EQ(networks[0].name, "a");
  const CostProfile& b = networks[1].costs;
  ASSERT_EQ(b.layers.size(), 2u);
  EXPECT_EQ(b.layers[1].elements, 64);
  EXPECT_EQ(b.layers[1].backward_s, 4);
  EXPECT_EQ(b.layers[1].forward_s, 3);
  EXPECT_EQ(b.all_reduce.alpha_s, 0.5);
  EXPECT_EQ(b.all_reduce.seconds(64), 0.5 + 0.25 * 64);
  EXPECT_EQ(b.all_gather.seconds(64), b.all_reduce.seconds(64) / 2);
}

TEST(ReplayNetwork, ACostProfileIsOneNetworkNamedAsItsFile) {
  const CostProfile costs = testing::network({{100, 1, 2}, {8, 1, 2}}, 1e-3, 1e-8);
  const std::vector<ReplayNetwork> networks = loaded(to_json(costs));
  ASSERT_EQ(networks.size(), 1u);
  EXPECT_EQ(networks[0].name, "n");
  EXPECT_EQ(to_json(networks[0].costs), to_json(costs));
}

TEST(ReplayNetwork, WhatIsNoneIsRefusedWithFileAndEntry) {
  EXPECT_THAT(networks_refusal("{"), HasSubstr("n.json"));
  EXPECT_THAT(networks_refusal("{}"), HasSubstr("cost profile n.json lacks"));
  EXPECT_THAT(networks_refusal(R"({"networks": {}})"), HasSubstr("there are none"));
  EXPECT_THAT(networks_refusal(R"({"networks": {"x": {"alpha_s": 1}}})"),
              AllOf(HasSubstr("network x of n.json"), HasSubstr("layers_elements")));
  EXPECT_THAT(networks_refusal(R"({"networks": {"x": {"layers_elements_backward_s_forward_s":
      [[16, -1, 1]], "alpha_s": 0, "beta_s_per_element": 0}}})"),
              HasSubstr("layers/0/backward_s is -1"));
  MemoryFs fs;
  EXPECT_THROW(load_replay_networks(fs, "absent"), Error);
}

// 6 s of computing, 96 elements.
CostProfile two_links() { return testing::network({{32, 1, 1}, {64, 1, 3}}, 0.2, 1e-3); }

TEST(ReplayNetwork, OnTheLinkOfARhoTheAllReduceTakesSoMuchOfTheComputing) {
  for (const auto& shards : {std::vector<int>{0, 1, 2}, {0, 2, 4, 6, 8}, {0, 3, 5, 8}}) {
    CostProfile costs = two_links();
    set_collectives(link_of_rho(0.75, 0.1, shards, costs), shards, costs);
    EXPECT_NEAR(costs.all_reduce.seconds(96), 0.75 * 6, 1e-9);
    EXPECT_NEAR(costs.reduce_scatter.seconds(96) + costs.all_gather.seconds(96), 0.75 * 6, 1e-9);
  }
  EXPECT_THROW(link_of_rho(0.01, 0.1, {0, 1, 2}, two_links()), Error);
}

// Rank 1 of 3 with shards 3 and 4 of 8 sends two subtrees, shard 3 and shard 4.
TEST(ReplayNetwork, ASumIsSentOnceForEachSubtree) {
  EXPECT_DOUBLE_EQ(sent_bytes({0, 1, 2}, 100), 400);
  EXPECT_DOUBLE_EQ(sent_bytes({0, 4, 8}, 100), 400);
  EXPECT_DOUBLE_EQ(sent_bytes({0, 3, 5, 8}, 300), (2 + 1) * 2.0 / 3 * 1200);
}

TEST(ReplayNetwork, AScaleKeepsTheRatiosOfAllTimes) {
  CostProfile network = testing::network({{320, 1, 1}, {6400, 1, 3}, {0, 1, 1}}, 0.2, 1e-3);
  network.optimizer_s_per_element = 1e-4;
  const CostProfile small = scaled(network, {.bytes = 10, .times = 0.5});
  EXPECT_EQ(small.layers[0].elements, 32);
  EXPECT_EQ(small.layers[2].elements, 0);
  EXPECT_NEAR(small.computing_s(), network.computing_s() / 2, 1e-12);
  for (const NamedSchedule& s : schedules()) {
    const CommPlan plan = replay_plan(std::string(s.name), network, {10, 0.5}, small);
    const CommPlan whole = make_comm_plan(s.name, network);
    EXPECT_EQ(plan.text(), whole.text()) << s.name;
    EXPECT_NEAR(simulate(plan, small).step_s, simulate(whole, network).step_s / 2, 1e-9) << s.name;
  }
  EXPECT_THROW(scaled(network, {.bytes = 0}), Error);
  EXPECT_THROW(scaled(network, {.bytes = 1, .times = -1}), Error);
}

TEST(ReplayNetwork, LayersAreRoundedUpToWholeSlotsAndPlansAreCutThere) {
  const CostProfile network = testing::network({{1000, 1, 1}, {17, 1, 3}, {5, 1, 1}}, 0.2, 1e-3);
  const CostProfile small = scaled(network, {.bytes = 3});
  EXPECT_EQ(small.layers[0].elements, 336);
  EXPECT_EQ(small.layers[1].elements, ParameterSpace::kAlign);
  EXPECT_EQ(small.layers[2].elements, ParameterSpace::kAlign);
  const CommPlan plan = replay_plan("wfbp", network, {.bytes = 3}, small);
  EXPECT_EQ(plan.buckets, (std::vector<ParameterRange>{{32, 368}, {16, 32}, {0, 16}}));
}

TEST(ReplayNetwork, ThisMachineGetsStepsAndBytesThatItCanDo) {
  const std::vector<int> shards = {0, 1, 2};
  for (const auto& [elements, seconds] :
       {std::pair<int64_t, double>{138'000'000, 0.5}, {1'000'000, 0.01}, {25'000'000, 40}}) {
    CostProfile network = testing::network({{elements, seconds / 2, seconds / 2}}, 0, 0);
    set_collectives(link_of_rho(0.75, 0, shards, network), shards, network);
    const ReplayScale scale = ReplayScale::for_this_machine(network, shards);
    const CostProfile small = scaled(network, scale);
    const double step_s = lower_bound_s(small);
    EXPECT_GE(step_s, 0.5 - 1e-3);
    EXPECT_LE(step_s, 3 + 1e-3);
    EXPECT_LE(sent_bytes(shards, small.parameter_count()), 50e6 * step_s * 1.001);
    EXPECT_GE(scale.bytes, 1);
  }
}

}  // namespace
}  // namespace ndtrain
