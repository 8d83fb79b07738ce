// Plans played by the instructions of their schedules.
#include "framework/pipeline/planner/play_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "tests/pipeline/planner/profiles.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

constexpr double kMebi = 1e6;

Topology even_links(int devices, double bytes_per_s) {
  Topology topology;
  topology.levels.push_back(
      {.units = devices, .all_reduce_bytes_per_s = bytes_per_s, .p2p_bytes_per_s = bytes_per_s});
  return topology;
}

PlayedPlan played(const ModelProfile& profile, const Topology& topology,
                  const PipelinePlanOptions& options) {
  return play_plan(plan_pipeline(profile, topology, options), profile, topology, options, 8);
}

ModelProfile two_alike() {
  ModelProfile profile = testing::chain({{0.2, 0.4, 1 * kMebi, 1000}, {0.2, 0.4, 1 * kMebi, 1000}});
  profile.batch = 64;
  return profile;
}

TEST(PlayPlan, StagesOfOneTimeTakeWhatThePlannerSays) {
  const Topology topology = even_links(2, 1e15);  // sends take no time
  for (const char* schedule : {"async", "1f1b", "zb", "gpipe", "2bw"}) {
    SCOPED_TRACE(schedule);
    const PipelinePlanOptions options{.preset = PlanPreset::kPipeline, .schedule = schedule};
    const PipelinePlan plan = plan_pipeline(two_alike(), topology, options);
    const PlayedPlan p = play_plan(plan, two_alike(), topology, options, 8);
    EXPECT_EQ(p.shape.stages, 2);
    EXPECT_EQ(p.shape.micro_batches, plan.micro_batches);
    EXPECT_NEAR(p.prediction.mini_batch_s, plan.seconds, 0.01 * plan.seconds);
  }
}

// What a kernel takes however few rows it has, each micro-batch takes; and its gradients are added
// to those before.
TEST(PlayPlan, FixedTimesMakeMicroBatchesFewerAndArePlayed) {
  const Topology topology = even_links(2, 1e15);
  const PipelinePlanOptions options{.preset = PlanPreset::kPipeline, .schedule = "1f1b"};
  const PipelinePlan plain = plan_pipeline(two_alike(), topology, options);
  EXPECT_NEAR(plain.seconds, 0.6 * 33 / 32, 1e-5);
  ModelProfile profile = two_alike();
  for (NodeProfile& n : profile.nodes) n.forward.fixed_s = 0.02;
  const PipelinePlan fixed = plan_pipeline(profile, topology, options);
  EXPECT_EQ(fixed.micro_batches, 4);  // of 0.165 s each, and one to wait for; 8 take 0.83 s
  EXPECT_NEAR(fixed.seconds, 5 * (0.02 + 0.58 / 4), 1e-5);
  EXPECT_NEAR(play_plan(fixed, profile, topology, options, 8).prediction.mini_batch_s,
              fixed.seconds, 0.01 * fixed.seconds);
  profile = two_alike();
  profile.optimizer_s_per_byte = 2e-5;  // of 1000 bytes: as much
  const PipelinePlan added = plan_pipeline(profile, topology, options);
  EXPECT_EQ(added.micro_batches, 4);
}

TEST(PlayPlan, AValueThatSkipsAStageHasAnEdgeOfItsOwn) {
  ModelProfile profile = testing::chain(
      {{0.1, 0.2, 4 * kMebi, 10}, {0.1, 0.2, 2 * kMebi, 10}, {0.1, 0.2, 1 * kMebi, 10}});
  profile.nodes[2].inputs = {1, 0};
  const PipelinePlanOptions options{.preset = PlanPreset::kPipeline,
                                    .schedule = "async",
                                    .activation_compression = 2,
                                    .most_micro_batches = 1};
  const PlayedPlan p = played(profile, even_links(3, 1e9), options);
  EXPECT_EQ(p.shape.edges, (std::vector<StageEdge>{{0, 1}, {0, 2}, {1, 2}}));
  ASSERT_EQ(p.costs.edges.size(), 3u);
  EXPECT_EQ(p.costs.edges[1].activation_bytes, 2 * kMebi);
  EXPECT_EQ(p.costs.edges[2].gradient_bytes, 1 * kMebi);
  EXPECT_EQ(p.costs.edges[0].bytes_per_s, 1e9);
}

TEST(PlayPlan, ReplicasWaitForTheExchangeThatComputingDoesNotHide) {
  ModelProfile profile = testing::chain({{0.2, 0.4, 1 * kMebi, 100 * kMebi}});
  profile.batch = 64;
  profile.optimizer_s_per_byte = 1e-10;
  const Topology topology = even_links(2, 1e9);
  const PipelinePlanOptions options{.preset = PlanPreset::kDataParallel};
  const PipelinePlan plan = plan_pipeline(profile, topology, options);
  const PlayedPlan p = play_plan(plan, profile, topology, options, 8);
  EXPECT_EQ(p.costs.replicas, std::vector<int>{2});
  EXPECT_GT(p.costs.stages[0].exchange_s, 0);
  EXPECT_NEAR(p.costs.stages[0].update_s, 0.01, 1e-12);
  EXPECT_NEAR(p.prediction.mini_batch_s, plan.seconds, 1e-6);
}

TEST(PlayPlan, LoadingHoldsUpTheFirstStageAlone) {
  ModelProfile profile = two_alike();
  NodeProfile input{.id = "rows", .description = "Input0"};
  input.forward = NodeTime::exactly(0.1);         // copy
  input.input_gradient = NodeTime::exactly(2.0);  // load
  profile.nodes.push_back(input);
  profile.nodes[0].inputs = {2};
  const PipelinePlanOptions options{
      .preset = PlanPreset::kPipeline, .schedule = "async", .most_micro_batches = 1};
  const PlayedPlan p = played(profile, even_links(2, 1e15), options);
  EXPECT_NEAR(p.costs.stages[0].forward_s, 2.0 - 0.4, 1e-9);
  EXPECT_NEAR(p.costs.stages[1].forward_s, 0.2, 1e-9);
  EXPECT_NEAR(p.prediction.mini_batch_s, 2.0, 1e-6);
}

TEST(PlayPlan, FrozenStagesOnlyRunForward) {
  ModelProfile profile = two_alike();
  profile.nodes[0].parameter_bytes = 0;
  profile.nodes[0].frozen_bytes = 1000;
  profile.nodes[0].input_gradient = {};
  const PlayedPlan p =
      played(profile, even_links(2, 1e15),
             {.preset = PlanPreset::kPipeline, .schedule = "async", .most_micro_batches = 1});
  EXPECT_EQ(p.shape.forward_only, (std::vector<bool>{true, false}));
}

TEST(PlayPlan, APlanOfSomethingElseIsRefused) {
  const Topology topology = even_links(2, 1e9);
  const PipelinePlanOptions options{
      .preset = PlanPreset::kPipeline, .schedule = "async", .most_micro_batches = 1};
  const PipelinePlan plan = plan_pipeline(two_alike(), topology, options);
  const auto why = [&](const PipelinePlan& p, const ModelProfile& profile, const Topology& t) {
    try {
      play_plan(p, profile, t, options, 8);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(why(plan, two_alike(), even_links(1, 1e9)),
              HasSubstr("of 2 devices, and there are 1"));
  PipelinePlan other = plan;
  other.stages[1].nodes = {"n7"};
  EXPECT_THAT(why(other, two_alike(), topology), HasSubstr("'n7' is not in the profile"));
  ModelProfile more = two_alike();
  more.nodes.push_back(more.nodes[1]);
  more.nodes.back().id = "n2";
  EXPECT_THAT(why(plan, more, topology), HasSubstr("'n2' of the profile is in no stage"));
  other = plan;
  other.schedule = "none";
  EXPECT_THAT(why(other, two_alike(), topology), HasSubstr("unknown pipeline schedule 'none'"));
}

}  // namespace
}  // namespace ndtrain
