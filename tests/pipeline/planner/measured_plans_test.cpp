#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "framework/parallel/schedules/schedules.h"
#include "framework/parallel/simulate.h"
#include "framework/pipeline/planner/pipeline_rules.h"
#include "framework/pipeline/planner/planner.h"
#include "framework/pipeline/planner/stage_costs.h"
#include "tests/pipeline/planner/profiles.h"

namespace ndtrain {
namespace {

using ::testing::DoubleEq;
using ::testing::HasSubstr;

constexpr double kMega = 1e6;

Topology flat(int devices, double bytes_per_s, double memory_bytes = 0) {
  Topology topology{.memory_bytes = memory_bytes};
  topology.levels.push_back(
      {.units = devices, .all_reduce_bytes_per_s = bytes_per_s, .p2p_bytes_per_s = bytes_per_s});
  return topology;
}

// Two layers with few parameters, then one of many, as in alexnet.
ModelProfile wide_end() {
  return testing::chain({{0.2, 0.4, 20 * kMega, 1 * kMega},
                         {0.2, 0.4, 2 * kMega, 1 * kMega},
                         {0.1, 0.2, 0.1 * kMega, 240 * kMega}});
}

std::string refusal(const ModelProfile& profile, const Topology& topology,
                    const PipelinePlanOptions& options = {}) {
  try {
    plan_pipeline(profile, topology, options);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(MeasuredPlans, ASlowLinkMakesStagesAndAFastOneReplicas) {
  const PipelinePlan slow =
      plan_pipeline(wide_end(), flat(2, 25 * kMega), {.most_micro_batches = 1});
  ASSERT_EQ(slow.stages.size(), 2u);
  EXPECT_EQ(slow.stages[0].nodes, (std::vector<std::string>{"n0", "n1"}));
  EXPECT_EQ(slow.stages[0].versions, 2);
  EXPECT_EQ(slow.stages[1].versions, 1);
  EXPECT_EQ(slow.schedule, "async");
  // 2 MB pass.
  EXPECT_DOUBLE_EQ(slow.stages[1].seconds, 0.3 + 0.08);
  EXPECT_DOUBLE_EQ(slow.seconds, 1.2 + 0.08);
  EXPECT_DOUBLE_EQ(slow.one_device_s, 1.5);
  // All but a part of it travels while others are computed, so that more of it may.
  const PipelinePlan parts = plan_pipeline(wide_end(), flat(2, 25 * kMega), {});
  EXPECT_EQ(parts.schedule, "async");
  EXPECT_EQ(parts.micro_batches, limits::kPlannedMicroBatches);
  EXPECT_LT(parts.seconds, 1);

  const PipelinePlan fast = plan_pipeline(wide_end(), flat(2, 1e5 * kMega));
  ASSERT_EQ(fast.stages.size(), 1u);
  EXPECT_EQ(fast.stages[0].replicas, 2);
  EXPECT_EQ(fast.seconds, fast.data_parallel_s);
  EXPECT_LT(fast.seconds, 0.76);
}

TEST(MeasuredPlans, ACutWhereLittlePassesIsPreferred) {
  ModelProfile profile = wide_end();
  std::swap(profile.nodes[0].activation_bytes, profile.nodes[1].activation_bytes);
  const PipelinePlan plan = plan_pipeline(profile, flat(2, 25 * kMega), {.most_micro_batches = 1});
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].nodes, std::vector<std::string>{"n0"});
  EXPECT_DOUBLE_EQ(plan.seconds, 0.9 + 0.08);
}

TEST(MeasuredPlans, PresetsComeFromOneProfile) {
  const Topology topology = flat(3, 25 * kMega);
  const PipelinePlan dp =
      plan_pipeline(wide_end(), topology, {.preset = PlanPreset::kDataParallel});
  ASSERT_EQ(dp.stages.size(), 1u);
  EXPECT_EQ(dp.stages[0].replicas, 3);
  const PipelinePlan pipeline =
      plan_pipeline(wide_end(), topology, {.preset = PlanPreset::kPipeline});
  ASSERT_EQ(pipeline.stages.size(), 3u);
  for (const PlannedStage& s : pipeline.stages) EXPECT_EQ(s.replicas, 1);
  const PipelinePlan hybrid = plan_pipeline(wide_end(), topology);
  EXPECT_LE(hybrid.seconds, std::min(dp.seconds, pipeline.seconds));
  EXPECT_EQ(hybrid.stages.size(), 2u);
  EXPECT_EQ(hybrid.devices(), 3);
  EXPECT_EQ(plan_preset_named("dp"), PlanPreset::kDataParallel);
  EXPECT_THROW(plan_preset_named("data"), Error);
}

TEST(MeasuredPlans, DevicesAreLeftOverOnlyWhereThatIsAllowed) {
  ModelProfile profile = testing::chain({{0.1, 0.2, 500 * kMega, 500 * kMega}});
  const Topology topology = flat(2, 25 * kMega);
  EXPECT_EQ(plan_pipeline(profile, topology).devices(), 2);
  const PipelinePlan plan = plan_pipeline(profile, topology, {.fewer = true});
  EXPECT_EQ(plan.devices(), 1);
  EXPECT_DOUBLE_EQ(plan.seconds, 0.3);
  EXPECT_THAT(
      refusal(profile, topology, {.preset = PlanPreset::kPipeline}),
      HasSubstr("some of 2 devices would have no work: there are 1 nodes for stages. Fewer"));
}

TEST(MeasuredPlans, AReplicaHasARowOfAMicroBatchAtLeast) {
  ModelProfile profile = wide_end();
  profile.batch = 2;
  EXPECT_THAT(refusal(profile, flat(3, 1e9), {.preset = PlanPreset::kDataParallel}),
              HasSubstr("3 nodes for stages and 2 rows for replicas"));
  for (const PlannedStage& s : plan_pipeline(profile, flat(4, 1e11)).stages) {
    EXPECT_LE(s.replicas, 2);
  }
  profile.batch = 8;
  const PipelinePlan plan = plan_pipeline(profile, flat(4, 1e11), {.schedule = "2bw"});
  for (const PlannedStage& s : plan.stages) EXPECT_LE(s.replicas * plan.micro_batches, 8);
}

// As the simulator of schedules has it, under the last backward pass and the next forward pass.
TEST(MeasuredPlans, AnExchangeIsOverlappedAsTheSimulatorHasIt) {
  const PipelinePlan plan =
      plan_pipeline(wide_end(), flat(2, 300 * kMega), {.preset = PlanPreset::kDataParallel});
  CostProfile costs{.source = "a test", .ranks = 2};
  for (const double mega : {1.0, 1.0, 240.0}) {
    const double share = mega > 1 ? 0.5 : 1;
    costs.layers.push_back({.elements = static_cast<int64_t>(mega * kMega / 4),
                            .forward_s = 0.1 * share,
                            .backward_s = 0.2 * share});
  }
  const double beta = 1 / (2 * 300 * kMega);
  costs.reduce_scatter = costs.all_gather = {0, beta};
  costs.all_reduce = {0, 2 * beta};
  costs.reduce = costs.broadcast = {0, 2 * beta};
  const double auto_s = simulate(make_comm_plan("auto", costs), costs).step_s;
  EXPECT_GE(plan.seconds, lower_bound_s(costs));
  EXPECT_NEAR(plan.seconds, auto_s, 0.01 * auto_s);
  EXPECT_GT(plan.seconds, 0.8);  // computing is .75
}

TEST(MeasuredPlans, LoadingIsBesideStage0AndTheCopyInFrontOfIt) {
  ModelProfile profile = testing::chain({{0.1, 0.2, 0, 0}, {0.1, 0.2, 0, 0}});
  profile.nodes.insert(profile.nodes.begin(), {.id = "input", .description = "Input0"});
  profile.nodes[1].inputs = {0};
  profile.nodes[2].inputs = {1};
  profile.nodes[0].forward = NodeTime::exactly(0.05);
  const auto seconds = [&](PlanPreset preset) {
    std::vector<double> all;
    for (const PlannedStage& s : plan_pipeline(profile, flat(2, 1e9), {.preset = preset}).stages) {
      all.push_back(s.seconds);
    }
    return all;
  };
  profile.nodes[0].input_gradient = NodeTime::exactly(0.1);
  EXPECT_THAT(seconds(PlanPreset::kPipeline),
              ::testing::ElementsAre(DoubleEq(0.35), DoubleEq(0.3)));
  profile.nodes[0].input_gradient = NodeTime::exactly(1);
  EXPECT_THAT(seconds(PlanPreset::kPipeline), ::testing::ElementsAre(DoubleEq(1), DoubleEq(0.3)));
  EXPECT_THAT(seconds(PlanPreset::kDataParallel),
              ::testing::ElementsAre(DoubleEq(0.5)));  // each loads its rows
}

// Of a chain with skip connections: what a stage reads comes straight from where it was made.
TEST(MeasuredPlans, AValueIsCountedWhereItIsMadeAndWhereItIsRead) {
  ModelProfile profile = testing::chain({{1, 0, 8, 0}, {1, 0, 4, 0}, {1, 0, 2, 0}});
  profile.nodes[2].inputs = {0, 1};
  const ComputedNodes nodes = computed_nodes(profile, false);
  const ClosedSets sets({{}, {0}, {0, 1}}, 10);
  const Topology topology = flat(3, 1);
  const StageCosts costs(nodes, sets, topology, {}, 1);
  EXPECT_EQ(costs.sums(0, 1).out_bytes, 8);
  EXPECT_EQ(costs.sums(1, 2).in_bytes, 8);
  EXPECT_EQ(costs.sums(1, 2).out_bytes, 4);  // n0's is not its own
  EXPECT_EQ(costs.sums(2, 3).in_bytes, 12);
  EXPECT_EQ(costs.sums(2, 3).out_bytes, 0);
  EXPECT_EQ(costs.sums(1, 3).in_bytes, 8);  // once, whoever reads it
}

TEST(MeasuredPlans, MemoryIsWhatAStageHolds) {
  ModelProfile profile = testing::chain({{0.1, 0.2, 10, 100}, {0.1, 0.2, 30, 1000}});
  profile.moment_bytes_per_byte = 2;
  profile.nodes[1].workspace_bytes = 7;
  profile.nodes[1].frozen_bytes = 5;
  const PipelinePlan async = plan_pipeline(
      profile, flat(2, 1e9), {.preset = PlanPreset::kPipeline, .most_micro_batches = 1});
  // Two versions, a gradient, two moments; two mini-batches of saved values; buffers out.
  EXPECT_DOUBLE_EQ(async.stages[0].memory_bytes, 5 * 100 + 2 * 10 + 2 * 10);
  EXPECT_DOUBLE_EQ(async.stages[1].memory_bytes, 4 * 1000 + 30 + 7 + 5 + 2 * 10);
  // Replicas split rows, and have a buffer for what the others send.
  const PipelinePlan dp =
      plan_pipeline(profile, flat(2, 1e9), {.preset = PlanPreset::kDataParallel});
  EXPECT_DOUBLE_EQ(dp.stages[0].memory_bytes, 5 * 1100 + (40 + 7) / 2.0 + 5);
}

// Of two micro-batches half the workspace, but for what is fixed, and one's gradients beside the
// sum of both.
TEST(MeasuredPlans, MicroBatchesTakeWhatIsFixedAndAGradientMore) {
  ModelProfile profile = testing::chain({{0.1, 0.2, 10, 100}, {0.1, 0.2, 30, 1000}});
  profile.moment_bytes_per_byte = 2;
  profile.nodes[0].workspace_bytes = 90;
  profile.nodes[1].workspace_bytes = 80;
  profile.nodes[1].fixed_workspace_bytes = 70;
  const ComputedNodes nodes = computed_nodes(profile, false);
  const ClosedSets sets({{}, {0}}, 10);
  const Topology topology = flat(1, 1e9);
  const StageCosts costs(nodes, sets, topology, {.seconds_per_byte = 0, .moment_bytes_per_byte = 2},
                         1);
  for (const int64_t parts : {1, 2}) {
    const PipelineRule gpipe = pipeline_rules("gpipe", {.most_micro_batches = parts}).back();
    ASSERT_EQ(gpipe.micro_batches, parts);
    const StageCosts::Stage all = costs.stage({.before = 0, .set = 2, .devices = {0, 1}},
                                              costs.sums(0, 2), gpipe, 1e9, false);
    const double more = parts > 1 ? 1100 : 0, work = parts > 1 ? 75 : 90;
    EXPECT_DOUBLE_EQ(all.bytes, 4 * 1100 + more + 40 + work) << parts;
  }
}

TEST(MeasuredPlans, WhereMemoryIsShortTheLeastThatHelpsIsDone) {
  ModelProfile profile = testing::chain(
      {{0.1, 0.2, 1, 10}, {0.1, 0.2, 1000, 10}, {0.1, 0.2, 1, 10}, {0.1, 0.2, 1000, 10}});
  profile.batch = 64;
  PipelinePlanOptions options{.preset = PlanPreset::kPipeline, .most_micro_batches = 1};
  const auto plan = [&](double memory) {
    return plan_pipeline(profile, flat(2, 1e9, memory), options);
  };
  const PipelinePlan plenty = plan(1e6);
  EXPECT_EQ(plenty.schedule, "async");
  EXPECT_FALSE(plenty.stages[0].recompute);
  EXPECT_NEAR(plenty.stages[0].memory_bytes, 2 * 1001 + 60 + 2000, 1);
  EXPECT_NEAR(plenty.seconds, 0.6, 1e-5);
  // Parts of a mini-batch: of a second one as little is held as possible, or of none.
  options.most_micro_batches = 2;
  const PipelinePlan parts = plan(2600);
  EXPECT_EQ(parts.schedule, "async");
  EXPECT_EQ(parts.micro_batches, 2);
  EXPECT_NEAR(parts.stages[0].memory_bytes, 1.5 * 1001 + 80 + 1000, 1);
  const PipelinePlan fewer = plan(2100);
  EXPECT_EQ(fewer.schedule, "2bw");
  EXPECT_EQ(fewer.micro_batches, 2);
  EXPECT_NEAR(fewer.stages[0].memory_bytes, 1001 + 80 + 1000, 1);
  // Where it has to be async of whole ones, the forward pass once more.
  options.schedule = "async";
  options.most_micro_batches = 1;
  const PipelinePlan again = plan(3500);
  EXPECT_TRUE(again.stages[0].recompute);
  EXPECT_FALSE(again.stages[1].recompute);
  EXPECT_NEAR(again.stages[0].memory_bytes, 1001 + 60 + 2000, 1);
  EXPECT_NEAR(again.seconds, 0.8, 1e-5);
  // Where that is not allowed, another cut.
  options.recompute = false;
  const PipelinePlan uneven = plan(3500);
  EXPECT_NE(uneven.stages[0].nodes.size(), 2u);
  EXPECT_NEAR(uneven.seconds, 0.9, 1e-5);
}

TEST(MeasuredPlans, MemoryThatFitsNowhereIsToldWithWhatHelps) {
  const ModelProfile profile =
      testing::chain({{0.1, 0.2, 1e6, 1e6}, {0.1, 0.2, 1e6, 3e9}, {0.1, 0.2, 1e6, 1e6}});
  for (const bool published : {false, true}) {
    const std::string why =
        refusal(profile, flat(2, 1e9, 2e9), {.published_costs = published, .recompute = false});
    EXPECT_THAT(why, HasSubstr("no plan fits into 2 GB a device"));
    EXPECT_THAT(why, HasSubstr("lacks 4.00"));
    EXPECT_THAT(why, HasSubstr("at stage 1 of 2"));
    EXPECT_THAT(why, HasSubstr("n2, replicas 1, versions 1), which takes 6.00"));
    EXPECT_THAT(why, HasSubstr("recomputing (no --no-recompute), more devices"));
  }
}

TEST(MeasuredPlans, TooManyStatesAreToldWithWhatHelps) {
  ModelProfile profile = testing::chain(std::vector<testing::ChainNode>(12, {0.1, 0.2, 1, 1}));
  for (size_t n = 1; n + 1 < 12; ++n) profile.nodes[n].inputs = {0};
  profile.nodes[11].inputs = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const std::string why = refusal(profile, flat(2, 1e9), {.most_states = 1000});
  EXPECT_THAT(why, HasSubstr("more than 1000 states"));
  EXPECT_THAT(why, HasSubstr("--compress-branches makes fewer, --states N allows more"));
  EXPECT_EQ(plan_pipeline(profile, flat(2, 1e9), {.most_states = 1025}).states, 1025);
  EXPECT_THAT(refusal(profile, flat(2, 1e9), {.most_states = 1024}), HasSubstr("more than 1024"));
}

TEST(MeasuredPlans, CompressedBranchesHaveFewerStatesAndAllNodes) {
  // n0 is read by a branch of n1 to n3 and by one of n4 and n5; n6 reads both.
  ModelProfile profile = testing::chain(std::vector<testing::ChainNode>(8, {0.1, 0.2, 5, 1}));
  profile.nodes[4].inputs = {0};
  profile.nodes[6].inputs = {3, 5};
  const PipelinePlan whole = plan_pipeline(profile, flat(2, 1e9));
  const PipelinePlan compressed = plan_pipeline(profile, flat(2, 1e9), {.compress_branches = true});
  EXPECT_EQ(whole.states, 1 + 4 * 3 - 1 + 2);
  EXPECT_EQ(compressed.states, 1 + 2 * 2 - 1 + 2);
  size_t nodes = 0;
  for (const PlannedStage& s : compressed.stages) nodes += s.nodes.size();
  EXPECT_EQ(nodes, 8u);
  const ComputedNodes merged = computed_nodes(profile, true);
  ASSERT_EQ(merged.nodes.size(), 5u);
  EXPECT_EQ(merged.ids[1], (std::vector<std::string>{"n1", "n2", "n3"}));
  EXPECT_DOUBLE_EQ(merged.nodes[1].forward.median_s, 0.3);
  EXPECT_EQ(merged.nodes[1].activation_bytes, 5);
  EXPECT_EQ(merged.nodes[1].saved_bytes, 15);
  EXPECT_EQ(merged.nodes[3].inputs, (std::vector<int>{1, 2}));
}

TEST(MeasuredPlans, AMiniBatchIsCutIntoSoManyMicroBatchesAtMost) {
  constexpr double kSaved = 64'000, kParameters = 100;
  ModelProfile profile = testing::chain({{0.1, 0.2, kSaved, kParameters}});
  profile.batch = 1024;
  const PipelinePlanOptions options{.schedule = "1f1b", .recompute = false};
  const auto bytes = [&](int64_t parts) {
    return 3 * kParameters + kSaved / static_cast<double>(parts);
  };
  const int64_t most = limits::kPlannedMicroBatches;
  EXPECT_EQ(plan_pipeline(profile, flat(1, 1e9, bytes(most)), options).micro_batches, most);
  EXPECT_THAT(refusal(profile, flat(1, 1e9, bytes(most + 1)), options),
              HasSubstr("no plan fits into "));
}

TEST(MeasuredPlans, RatiosScaleWhatDependsOnThem) {
  const Topology topology = flat(2, 25 * kMega);
  const PipelinePlan one = plan_pipeline(wide_end(), topology, {.preset = PlanPreset::kPipeline});
  const PipelinePlan twice =
      plan_pipeline(wide_end(), topology, {.preset = PlanPreset::kPipeline, .minibatch_ratio = 2});
  EXPECT_DOUBLE_EQ(twice.seconds, 2 * one.seconds);
  const PipelinePlan smaller = plan_pipeline(
      wide_end(), topology, {.preset = PlanPreset::kPipeline, .activation_compression = 1e9});
  EXPECT_LT(smaller.seconds, 0.9 + 1e-6);
}

TEST(PipelineRules, FollowTheSteadyStateOfTheirSchedules) {
  const PipelineRule async = pipeline_rules("async", {.most_micro_batches = 8}).front();
  EXPECT_EQ(async.versions(2), 3);
  EXPECT_EQ(async.in_flight(2), 3);
  EXPECT_EQ(async.seconds(2, 4), 2);
  EXPECT_EQ(async.with_transfers(2, 1), 3);
  EXPECT_EQ(async.micro_batches, 1);
  const auto four = pipeline_rules("zb", {.least_micro_batches = 4, .most_micro_batches = 4});
  ASSERT_EQ(four.size(), 1U);
  EXPECT_EQ(four[0].micro_batches, 4);
  const PipelineRule parts = pipeline_rules("async", {.most_micro_batches = 8}).back();
  EXPECT_EQ(parts.in_flight(2), 2 + 1.0 / 8);
  EXPECT_EQ(parts.with_transfers(2, 1), 2 + 1.0 / 8);
  EXPECT_EQ(parts.with_transfers(2, 5), 5) << "the link is never idle";
  const PipelineRule flush = pipeline_rules("1f1b", {.most_micro_batches = 8}).back();
  EXPECT_EQ(flush.micro_batches, 8);
  EXPECT_EQ(flush.versions(2), 1);
  EXPECT_EQ(flush.with_transfers(2, 1), 3);
  EXPECT_EQ(flush.in_flight(2), 3.0 / 8);
  EXPECT_EQ(flush.seconds(2, 4), 2 * 11.0 / 8);
  EXPECT_EQ(pipeline_rules("gpipe", {.most_micro_batches = 8}).back().in_flight(2), 1);
  const PipelineRule filled =
      pipeline_rules("zb", {.most_micro_batches = 8, .most_stages = 4, .weight_share = 0.3}).back();
  EXPECT_EQ(filled.in_flight(0), 4.0 / 8);
  EXPECT_DOUBLE_EQ(filled.seconds(2, 4), 2 * (8 + 3 * 0.4) / 8);
  EXPECT_DOUBLE_EQ(filled.seconds(2, 9), 2 * 16.0 / 8) << "too few to fill in";
  const PipelineRule two = pipeline_rules("2bw", {.most_micro_batches = 2}).back();
  EXPECT_EQ(two.versions(2), 2);
  EXPECT_EQ(two.versions(0), 1);
  EXPECT_EQ(two.seconds(2, 4), 4);
  try {
    pipeline_rules("fast", {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("'fast'; there are auto, async, 2bw, zb, 1f1b, gpipe"));
  }
}

TEST(MeasuredPlans, WhatMakesNoSenseIsRefused) {
  const ModelProfile profile = wide_end();
  EXPECT_THAT(refusal(profile, {}), HasSubstr("no level of devices"));
  EXPECT_THAT(refusal(profile, flat(0, 1)), HasSubstr("a level of 0 units"));
  EXPECT_THAT(refusal(profile, flat(65, 1)), HasSubstr("not above 64 devices"));
  EXPECT_THAT(refusal(profile, flat(2, 0)), HasSubstr("a bandwidth of 0 bytes/s"));
  EXPECT_THAT(refusal(profile, flat(2, 1), {.minibatch_ratio = 0}), HasSubstr("a ratio of 0"));
  EXPECT_THAT(refusal(profile, flat(2, 1), {.schedule = "fast"}), HasSubstr("'fast'"));
  EXPECT_THAT(refusal({}, flat(2, 1)), HasSubstr("no node but inputs"));
}

}  // namespace
}  // namespace ndtrain
