#include "framework/parallel/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "framework/core/error.h"
#include "framework/parallel/buckets.h"
#include "framework/parallel/schedules/schedules.h"
#include "tests/parallel/random_costs.h"

namespace ndtrain {
namespace {

using Kind = PlannedOp::Kind;
using Lane = StepPrediction::Lane;

// Three layers of 4 elements: forward 1, 2, 3 s from the front, backward 2 s each. A reduce-scatter
// or an all-gather takes .5 + 1.5 = 2 s.
CostProfile three_to_simulate() {
  return testing::network({{4, 1, 2}, {4, 2, 2}, {4, 3, 2}}, 1, 0.1875);
}

CommPlan plan_of(const CostProfile& costs, std::vector<PlannedOp> ops) {
  return {.buckets = layer_buckets(costs), .ops = std::move(ops)};
}

std::string listed(const StepPrediction& p, Lane lane) {
  std::string text;
  for (const StepPrediction::Span& s : p.spans) {
    if (s.lane != lane) continue;
    char span[80];
    std::snprintf(span, sizeof span, "%s%s %g-%g", text.empty() ? "" : ", ", s.name.c_str(),
                  s.begin_s, s.end_s);
    text += span;
  }
  return text;
}

TEST(Simulate, ALayerIsComputedWhenItsBucketHasArrived) {
  const CostProfile costs = three_to_simulate();
  const StepPrediction p = simulate(plan_of(costs, {{Kind::kReduceScatter, 2},
                                                    {Kind::kReduceScatter, 1},
                                                    {Kind::kReduceScatter, 0},
                                                    {Kind::kAllGather, 0},
                                                    {Kind::kAllGather, 1},
                                                    {Kind::kAllGather, 2}}),
                                    costs);
  EXPECT_EQ(listed(p, Lane::kLink), "R2 2-4, R1 4-6, R0 6-8, A0 8-10, A1 10-12, A2 12-14");
  EXPECT_EQ(listed(p, Lane::kComputing), "B2 0-2, B1 2-4, B0 4-6, F0 10-11, F1 12-14, F2 14-17");
  EXPECT_DOUBLE_EQ(p.step_s, 17);
  EXPECT_DOUBLE_EQ(p.computing_s, 12);
  EXPECT_DOUBLE_EQ(p.exposed_s, 5);
  EXPECT_DOUBLE_EQ(p.bound_s, 12);
}

TEST(Simulate, AnOperationThatIsNotReadyHoldsUpAllBehindIt) {
  const CostProfile costs = three_to_simulate();
  const StepPrediction p = simulate(
      plan_of(costs, {{Kind::kAllReduce, 0}, {Kind::kAllReduce, 2}, {Kind::kAllReduce, 1}}), costs);
  EXPECT_EQ(listed(p, Lane::kLink), "AR0 6-10, AR2 10-14, AR1 14-18");
  EXPECT_DOUBLE_EQ(p.step_s, 23);
}

TEST(Simulate, AGroupedCallWaitsForAllOfItAndHasOneLatency) {
  const CostProfile costs = three_to_simulate();
  const StepPrediction p = simulate(plan_of(costs, {{Kind::kReduceScatter, 2},
                                                    {Kind::kReduceScatter, 1},
                                                    {Kind::kReduceScatter, 0},
                                                    {Kind::kAllGather, 1, true},
                                                    {Kind::kAllGather, 0},
                                                    {Kind::kAllGather, 2}}),
                                    costs);
  EXPECT_EQ(listed(p, Lane::kLink), "R2 2-4, R1 4-6, R0+A1 6-9.5, A0 9.5-11.5, A2 11.5-13.5");
  EXPECT_EQ(listed(p, Lane::kComputing),
            "B2 0-2, B1 2-4, B0 4-6, F0 11.5-12.5, F1 12.5-14.5, "
            "F2 14.5-17.5");
}

TEST(Simulate, UpdatesStandInFrontOfTheirLayersOrBehindAll) {
  CostProfile costs = three_to_simulate();
  costs.optimizer_s_per_element = 0.25;
  CommPlan plan = make_comm_plan("wfbp", costs);
  EXPECT_EQ(listed(simulate(plan, costs), Lane::kComputing),
            "B2 0-2, B1 2-4, B0 4-6, U0 14-15, F0 15-16, U1 16-17, F1 17-19, U2 19-20, F2 20-23");
  plan.update_late = false;
  EXPECT_EQ(listed(simulate(plan, costs), Lane::kComputing),
            "B2 0-2, B1 2-4, B0 4-6, U 14-17, F0 17-18, F1 18-20, F2 20-23");
}

TEST(Simulate, AShardedUpdateStandsBetweenTheHalvesAndComputesNothingElsewhere) {
  CostProfile costs = three_to_simulate();
  costs.optimizer_s_per_element = 0.25;  // of 2 ranks: .5 s for half a layer
  const CommPlan plan = make_comm_plan("wfbp", costs, {.shard_optimizer = true});
  const StepPrediction p = simulate(plan, costs);
  EXPECT_EQ(listed(p, Lane::kLink),
            "R2 2-4, A2 4.5-6.5, R1 6.5-8.5, A1 9-11, R0 11-13, A0 13.5-15.5");
  EXPECT_DOUBLE_EQ(p.step_s, 21.5);
  EXPECT_DOUBLE_EQ(p.computing_s, 12);
}

TEST(Simulate, PrefetchHoldsAnAllGatherUntilTheForwardPassComes) {
  const CostProfile costs = testing::network({{4, 8, 2}, {4, 8, 2}, {4, 8, 2}}, 1, 0.1875);
  CommPlan plan = make_comm_plan("dear", costs, {.bucket_layers = 1, .prefetch = 0});
  EXPECT_EQ(listed(simulate(plan, costs), Lane::kLink),
            "R2 2-4, R1 4-6, R0 6-8, A0 8-10, A1 10-12, A2 12-14");
  plan.prefetch = 1;
  EXPECT_EQ(listed(simulate(plan, costs), Lane::kLink),
            "R2 2-4, R1 4-6, R0 6-8, A0 8-10, A1 10-12, A2 18-20");
  plan.prefetch = 2;
  EXPECT_EQ(listed(simulate(plan, costs), Lane::kLink),
            "R2 2-4, R1 4-6, R0 6-8, A0 8-10, A1 10-12, A2 12-14");
}

TEST(Simulate, WhatWaitsForItselfIsRefused) {
  const CostProfile costs = three_to_simulate();
  CommPlan plan = plan_of(costs, {{Kind::kReduceScatter, 2},
                                  {Kind::kAllGather, 2},
                                  {Kind::kAllReduce, 1},
                                  {Kind::kAllReduce, 0}});
  EXPECT_NO_THROW(simulate(plan, costs));
  plan.prefetch = 1;
  EXPECT_THROW(simulate(plan, costs), Error);
  plan.prefetch = 0;
  plan.ops.pop_back();
  EXPECT_THROW(simulate(plan, costs), Error);
}

// Another statement of the same rules: whatever must have ended before something begins, over some
// steps, as a longest path.
class LongestPath {
 public:
  LongestPath(const CommPlan& plan, const CostProfile& costs, int steps)
      : plan_(plan),
        costs_(costs),
        L_(costs.layers.size()),
        spans_(layers_of(plan.buckets, costs)) {
    for (const PlannedOp& op : plan.ops) {
      if (!op.with_previous) calls_.emplace_back();
      calls_.back().push_back(op);
    }
    for (int s = 0; s < steps; ++s) add_step();
  }

  // From the end of the forward pass before the last step to that of its own.
  double last_period() {
    ends_.assign(nodes_.size(), 0);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t n = 0; n < nodes_.size(); ++n) {
        double begin = 0;
        for (const auto& [before, delay] : nodes_[n].after) {
          begin = std::max(begin, ends_[before] + delay);
        }
        if (begin + nodes_[n].seconds == ends_[n]) continue;
        ends_[n] = begin + nodes_[n].seconds;
        changed = true;
      }
    }
    return ends_[forward_end_.back()] - ends_[forward_end_[forward_end_.size() - 2]];
  }

 private:
  struct Node {
    double seconds;
    std::vector<std::pair<size_t, double>> after;
  };

  size_t add(double seconds) {
    nodes_.push_back({seconds, {}});
    return nodes_.size() - 1;
  }
  void chain(size_t& last, size_t node) {  // of a lane
    if (last != kNone) nodes_[node].after.emplace_back(last, 0);
    last = node;
  }

  void add_step() {
    std::vector<size_t> gradient(L_), sum(plan_.buckets.size());
    std::vector<std::vector<size_t>> arrives(L_);
    for (size_t l = L_; l-- > 0;) {
      gradient[l] = add(costs_.layers[l].backward_s);
      chain(computing_, gradient[l]);
    }
    for (const std::vector<PlannedOp>& call : calls_) {
      double alpha = 0, bytes = 0;
      for (const PlannedOp& op : call) {
        alpha = std::max(alpha, cost_of(op.kind, costs_).alpha_s);
        bytes +=
            cost_of(op.kind, costs_).bytes_s(plan_.buckets[static_cast<size_t>(op.bucket)].size());
      }
      const size_t node = add(alpha + bytes);
      chain(link_, node);
      for (const PlannedOp& op : call) {
        const auto b = static_cast<size_t>(op.bucket);
        const double slice = plan_.shard_optimizer
                                 ? costs_.optimizer_s_per_element *
                                       static_cast<double>(plan_.buckets[b].size()) / costs_.ranks
                                 : 0;
        if (takes_gradients(op.kind)) {
          nodes_[node].after.emplace_back(gradient[spans_[b].front], 0);
          sum[b] = node;
        } else {
          nodes_[node].after.emplace_back(sum[b], slice);
        }
        if (!completes(op.kind)) continue;
        for (size_t l = spans_[b].front; l <= spans_[b].back; ++l) arrives[l].push_back(node);
      }
    }
    add_forward(arrives);
  }

  void add_forward(const std::vector<std::vector<size_t>>& arrives) {
    const bool here = !plan_.shard_optimizer;
    if (!plan_.update_late) {
      const size_t update =
          add(here ? costs_.optimizer_s_per_element * static_cast<double>(costs_.parameter_count())
                   : 0);
      chain(computing_, update);
      nodes_[update].after.emplace_back(link_, 0);
    }
    for (size_t l = 0; l < L_; ++l) {
      const CostProfile::Layer& layer = costs_.layers[l];
      const double update = here && plan_.update_late ? costs_.optimizer_s_per_element *
                                                            static_cast<double>(layer.elements)
                                                      : 0;
      const size_t node = add(update + layer.forward_s);
      chain(computing_, node);
      for (const size_t n : arrives[l]) nodes_[node].after.emplace_back(n, 0);
    }
    forward_end_.push_back(computing_);
  }

  static constexpr size_t kNone = std::numeric_limits<size_t>::max();
  const CommPlan& plan_;
  const CostProfile& costs_;
  const size_t L_;
  const std::vector<LayerSpan> spans_;
  std::vector<std::vector<PlannedOp>> calls_;
  std::vector<Node> nodes_;
  std::vector<double> ends_;
  std::vector<size_t> forward_end_;
  size_t computing_ = kNone, link_ = kNone;
};

TEST(Simulate, OnePeriodIsTheThirdOfThreeStepsByTheLongestPath) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const CostProfile costs = testing::random_costs(seed, 12);
    Rng rng(seed, "plan");
    const CommPlan plan = testing::random_plan(costs, rng);
    const StepPrediction p = simulate(plan, costs);
    ASSERT_NEAR(p.step_s, LongestPath(plan, costs, 3).last_period(), 1e-12 * (1 + 3 * p.step_s))
        << "seed " << seed << ": " << plan.text();
    ASSERT_EQ(p.step_s, predicted_step_s(plan, costs));
  }
}

TEST(Simulate, NoPlanBeatsTheLowerBound) {
  int tight = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const CostProfile costs = testing::random_costs(seed, 30);
    Rng rng(seed, "plan");
    std::vector<CommPlan> plans;
    for (int i = 0; i < 5; ++i) plans.push_back(testing::random_plan(costs, rng));
    for (const NamedSchedule& s : schedules()) {
      if (s.name != "auto") plans.push_back(make_comm_plan(s.name, costs));
    }
    for (const CommPlan& plan : plans) {
      const StepPrediction p = simulate(plan, costs);
      ASSERT_GE(p.step_s, p.bound_s * (1 - 1e-12)) << "seed " << seed << ": " << plan.text();
      ASSERT_GE(p.exposed_s, -1e-12 * p.step_s);
      tight += p.step_s < 1.1 * p.bound_s ? 1 : 0;
    }
  }
  EXPECT_GT(tight, 100);
}

TEST(Simulate, LanesDoOneThingAtATime) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const CostProfile costs = testing::random_costs(seed, 12);
    Rng rng(seed, "plan");
    const StepPrediction p = simulate(testing::random_plan(costs, rng), costs);
    double free[] = {0, 0};
    for (const StepPrediction::Span& s : p.spans) {
      double& at = free[static_cast<size_t>(s.lane)];
      ASSERT_GE(s.begin_s, at) << "seed " << seed << ": " << s.name;
      ASSERT_GE(s.end_s, s.begin_s);
      at = s.end_s;
    }
    EXPECT_EQ(std::max(free[0], free[1]), p.step_s);
  }
}

}  // namespace
}  // namespace ndtrain
