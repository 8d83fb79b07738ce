#include "framework/parallel/collective_costs.h"

#include <gtest/gtest.h>

#include <set>

#include "framework/comm/link_model.h"
#include "framework/core/rng.h"
#include "framework/parallel/simulate.h"
#include "tests/comm/rank_threads.h"

namespace ndtrain {
namespace {

using Kind = PlannedOp::Kind;

CostProfile known() {
  CostProfile costs;
  costs.reduce_scatter = {.alpha_s = 1e-3, .beta_s_per_byte = 1e-8};
  costs.all_gather = {.alpha_s = 2e-3, .beta_s_per_byte = 2e-8};
  costs.all_reduce = {.alpha_s = 3e-3, .beta_s_per_byte = 3e-8};
  costs.reduce = {.alpha_s = 4e-3, .beta_s_per_byte = 4e-8};
  costs.broadcast = {.alpha_s = 5e-3, .beta_s_per_byte = 5e-8};
  return costs;
}

void expect_near(const CostProfile::Collective& a, const CostProfile::Collective& b, double part) {
  EXPECT_NEAR(a.alpha_s, b.alpha_s, part * b.alpha_s);
  EXPECT_NEAR(a.beta_s_per_byte, b.beta_s_per_byte, part * b.beta_s_per_byte);
}

// Every third repetition takes ten times as long, as where somebody else wants the processor.
TEST(CollectiveCosts, OfKnownTimesAreTheirLinesWhateverASingleOneTakes) {
  Rng rng(7);
  std::set<int64_t> sizes;
  const TimeCollective time = [&](Kind kind, int64_t elements) {
    sizes.insert(elements);
    const double s = cost_of(kind, known()).seconds(elements);
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) times.push_back(s * (1 + 0.02 * rng.next_uniform()));
    times[1] *= 10;
    times[4] *= 10;
    return times;
  };
  CostProfile costs;
  const double spent = measure_collectives(time, {.budget_s = 1e9}, costs);
  EXPECT_GT(spent, 0);
  EXPECT_EQ(*sizes.begin(), 8 << 10);
  EXPECT_EQ(*sizes.rbegin(), 4 << 20);
  for (const Kind kind : {Kind::kReduceScatter, Kind::kAllGather, Kind::kAllReduce, Kind::kReduce,
                          Kind::kBroadcast}) {
    expect_near(cost_of(kind, costs), cost_of(kind, known()), 0.05);
  }
}

TEST(CollectiveCosts, OfASlowLinkNeedTwoSizesAndNoMoreThanTheBudget) {
  std::set<int64_t> sizes;
  const TimeCollective time = [&](Kind kind, int64_t elements) {
    sizes.insert(elements);
    return std::vector<double>{cost_of(kind, known()).seconds(elements)};
  };
  CostProfile costs;
  measure_collectives(time, {.budget_s = 0}, costs);
  EXPECT_EQ(sizes, (std::set<int64_t>{8 << 10, 32 << 10}));
  expect_near(costs.broadcast, known().broadcast, 1e-6);
  sizes.clear();
  EXPECT_LE(measure_collectives(time, {.budget_s = 0.5}, costs), 0.5);
  EXPECT_EQ(sizes, (std::set<int64_t>{8 << 10, 32 << 10, 128 << 10}));
  sizes.clear();
  measure_collectives(time, {.most_elements = 40 << 10, .budget_s = 9}, costs);
  EXPECT_EQ(*sizes.rbegin(), 40 << 10) << "no larger than what is sent";
}

// A link is never faster than its model; how much slower it is here depends on who else computes.
TEST(CollectiveCosts, OfALinkModelAreItsLatencyAndBandwidth) {
  constexpr double kLatency = 0.02, kPerByte = 1e-6;
  comm_tests::Ranks transports;
  for (auto& inner : memory_transports(2)) {
    transports.push_back(
        over_link(std::move(inner), {.latency_s = kLatency, .bytes_per_s = 1 / kPerByte}));
  }
  std::vector<CostProfile> costs(2);
  comm_tests::run_ranks(std::move(transports), {.in_flight = 1}, [&](Communicator& comm) {
    CostProfile& of_rank = costs[static_cast<size_t>(comm.rank())];
    measure_collectives(comm, {0, 1, 2}, {.budget_s = 0}, system_clock(), of_rank);
  });
  // Of two ranks, each sends half of the bytes in each half of a sum.
  const CostProfile::Collective half{.alpha_s = kLatency, .beta_s_per_byte = kPerByte / 2};
  const CostProfile::Collective whole{.alpha_s = 2 * kLatency, .beta_s_per_byte = kPerByte};
  const auto expect_of_model = [](const CostProfile::Collective& c,
                                  const CostProfile::Collective& model) {
    for (const int64_t elements : {8 << 10, 32 << 10}) {
      EXPECT_GT(c.seconds(elements), 0.99 * model.seconds(elements));
      EXPECT_LT(c.seconds(elements), 3 * model.seconds(elements));
    }
  };
  expect_of_model(costs[0].reduce_scatter, half);
  expect_of_model(costs[0].all_gather, half);
  expect_of_model(costs[0].all_reduce, whole);
  EXPECT_EQ(costs[0].all_reduce.alpha_s, costs[1].all_reduce.alpha_s) << "equal on all ranks";
  EXPECT_EQ(costs[0].reduce.beta_s_per_byte, costs[1].reduce.beta_s_per_byte);
}

}  // namespace
}  // namespace ndtrain
