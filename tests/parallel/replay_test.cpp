#include "framework/parallel/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "framework/comm/memory_transport.h"
#include "framework/core/clock.h"
#include "framework/core/error.h"
#include "framework/parallel/between_ranks.h"
#include "framework/parallel/replay_network.h"
#include "framework/parallel/schedules/schedules.h"
#include "tests/parallel/random_costs.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using ::testing::ElementsAre;
using Kind = PlannedOp::Kind;

constexpr int kReplayShards = 4, kSteps = 3;

// Layers of some ms, the third without elements.
CostProfile four_layers() {
  return testing::network(
      {{160, 1e-3, 2e-3}, {4096, 1e-3, 1e-3}, {0, 1e-3, 1e-3}, {48, 1e-3, 2e-3}}, 1e-4, 1e-7);
}

std::vector<int> share_out(int ranks) {
  return shards_of_ranks(kReplayShards, std::vector<double>(static_cast<size_t>(ranks), 1.0));
}

// Of rank 0.
struct Run {
  ReplayResult result;
  std::vector<std::string> carried;  // the names of the operations of the last step
};

Run replayed(int ranks, const CommPlan& plan, uint64_t seed = 0) {
  auto transports = memory_transports(ranks);
  Run run;
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      Communicator communicator(std::move(transports[static_cast<size_t>(r)]),
                                {.in_flight = 1, .trace = true});
      Replay replay(four_layers(), share_out(ranks), {}, seed, testing::cpu(), communicator,
                    system_clock());
      ReplayResult result = replay.run(plan, 1, kSteps);
      if (r == 0) run.result = std::move(result);
      std::vector<std::string> names;
      for (const Communicator::Span& s : communicator.take_trace()) names.push_back(s.name);
      const auto last = std::find(names.rbegin(), names.rend(), "reports");
      if (r == 0) run.carried.assign(last.base() - 1, names.end());
      barrier(communicator);
    });
  }
  threads.clear();
  return run;
}

TEST(Replay, EveryScheduleAndNumberOfRanksGivesTheSameParameters) {
  const CostProfile costs = four_layers();
  const uint64_t one = replayed(2, make_comm_plan("blocking", costs)).result.parameters;
  for (const NamedSchedule& s : schedules()) {
    for (const int ranks : {2, 3}) {
      const ReplayResult r = replayed(ranks, make_comm_plan(s.name, costs)).result;
      EXPECT_EQ(r.parameters, one) << s.name << " by " << ranks;
      EXPECT_EQ(std::ssize(r.step_s), kSteps);
    }
  }
  EXPECT_NE(replayed(2, make_comm_plan("blocking", costs), 1).result.parameters, one);
}

TEST(Replay, AStepTakesAsLongAsItsLayers) {
  const CostProfile costs = four_layers();
  const ReplayResult r = replayed(2, make_comm_plan("blocking", costs)).result;
  double sum = 0;
  for (const double s : r.step_s) sum += s;
  // Each may begin as much later than the one before as a sleep was too long.
  EXPECT_GT(sum, (kSteps - 0.5) * costs.computing_s());
  EXPECT_GT(r.exposed_s, 0);
}

// Everybody waits for the reports: nothing that can wait for the next step is in front of them.
TEST(Replay, ReportsStandInFrontOfAllThatBeginsBehindTheBackwardPass) {
  CommPlan plan = make_comm_plan("wfbp", four_layers());
  plan.ops = {
      {Kind::kAllReduce, 1}, {Kind::kAllReduce, 0}, {Kind::kAllReduce, 3}, {Kind::kAllReduce, 2}};
  const std::vector<std::string> carried = replayed(2, plan).carried;
  ASSERT_GE(carried.size(), 4u);
  EXPECT_THAT(std::vector(carried.begin(), carried.begin() + 4),
              ElementsAre("reports", "AR0", "AR3", "AR2"));
}

TEST(Replay, WhatDoesNotFitIsRefused) {
  auto transports = memory_transports(2);
  Communicator communicator(std::move(transports[0]), {.in_flight = 1});
  const auto make = [&](const CostProfile& costs, const std::vector<int>& first_shards) {
    Replay replay(costs, first_shards, {}, 0, testing::cpu(), communicator, system_clock());
  };
  EXPECT_THROW(make(four_layers(), {0, 1, 2, 3}), Error);
  CostProfile odd = four_layers();
  odd.layers[0].elements = 100;
  EXPECT_THROW(make(odd, {0, 1, 2}), Error);
}

using std::chrono::seconds;

TEST(SleepingDevice, IsBusyForWhatItIsGivenAndForWorkBetween) {
  ManualClock clock;
  SleepingDevice device(clock);
  device.compute(5);
  device.run([&] { clock.advance(seconds(2)); }, [] { return 0.0; });
  device.compute(3);
  EXPECT_EQ(clock.monotonic(), seconds(10));
}

TEST(SleepingDevice, MakesUpForWhatAThreadOverslept) {
  ManualClock clock;
  SleepingDevice device(clock);
  device.compute(5);
  clock.advance(seconds(4));
  device.compute(1);
  EXPECT_EQ(clock.monotonic(), seconds(9));
  device.compute(6);
  EXPECT_EQ(clock.monotonic(), seconds(12));
}

TEST(SleepingDevice, IsFreeWhenWhatWasWaitedForHasCome) {
  ManualClock clock;
  SleepingDevice device(clock);
  device.compute(5);
  clock.advance(seconds(3));
  double waited = 0;
  // Until 12, then a second of work.
  device.run(
      [&] {
        clock.advance(seconds(5));
        waited += 4;
      },
      [&] { return waited; });
  device.compute(1);
  EXPECT_EQ(clock.monotonic(), seconds(14));
}

}  // namespace
}  // namespace ndtrain
