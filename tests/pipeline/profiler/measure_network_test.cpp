// Links that are made so slow are measured to be as slow.
#include "framework/pipeline/profiler/measure_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "framework/comm/link_model.h"
#include "framework/comm/memory_transport.h"
#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

// So slow that what a busy machine adds to a message is little beside it.
constexpr LinkModel kLink{.latency_s = 20e-3, .bytes_per_s = 400e3};

// By how much a busy machine may make them slower.
constexpr double kSlack = 2;

std::vector<Topology> measured(int ranks, const std::vector<int>& units) {
  std::vector<Topology> all(static_cast<size_t>(ranks));
  auto transports = memory_transports(ranks);
  std::vector<std::jthread> threads;
  for (size_t r = 0; r < all.size(); ++r) {
    threads.emplace_back([&, r] {
      Communicator communicator(over_link(std::move(transports[r]), kLink), {.in_flight = 1});
      all[r] = measure_network(communicator, units, {.budget_s = 0.3}, system_clock());
    });
  }
  threads.clear();
  return all;
}

// A small message that was late makes the line through it and a large one too flat, a large one too
// steep: measured again until one is undisturbed.
std::vector<Topology> measured_undisturbed(int ranks, const std::vector<int>& units) {
  for (int tries = 1;; ++tries) {
    std::vector<Topology> all = measured(ranks, units);
    const auto disturbed = [&](const Topology::Level& l) {
      const auto [least, most] = std::minmax(l.p2p_bytes_per_s, l.all_reduce_bytes_per_s);
      return l.p2p_bytes_per_s > kLink.bytes_per_s * 1.1 || most > kLink.bytes_per_s * 1.2 ||
             least < kLink.bytes_per_s / kSlack || l.fully_connected != (l.units > 2);
    };
    if (tries == 10 || std::ranges::none_of(all[0].levels, disturbed)) return all;
  }
}

TEST(MeasuredNetwork, IsAsSlowAsItsLinks) {
  for (const Topology& t : measured_undisturbed(4, {2, 2})) {
    ASSERT_EQ(t.levels.size(), 2U);
    for (const Topology::Level& l : t.levels) {
      EXPECT_EQ(l.units, 2);
      EXPECT_FALSE(l.fully_connected);
      EXPECT_GT(l.p2p_bytes_per_s, kLink.bytes_per_s / kSlack);
      EXPECT_LT(l.p2p_bytes_per_s, kLink.bytes_per_s * 1.1);
      EXPECT_GT(l.p2p_s, kLink.latency_s * 0.5);
      EXPECT_LT(l.p2p_s, kLink.latency_s * kSlack);
      // Two ranks send half of it each in a half.
      EXPECT_GT(l.all_reduce_bytes_per_s, kLink.bytes_per_s / kSlack);
      EXPECT_LT(l.all_reduce_bytes_per_s, kLink.bytes_per_s * 1.2);
      EXPECT_LT(l.all_reduce_s, kLink.latency_s * kSlack);
    }
  }
}

// The links of a pair are its own there.
TEST(MeasuredNetwork, OfRanksThatReachAllOthersAtOnceIsFullyConnected) {
  for (const Topology& t : measured_undisturbed(3, {3})) {
    ASSERT_EQ(t.levels.size(), 1U);
    EXPECT_TRUE(t.levels[0].fully_connected);
    EXPECT_GT(t.levels[0].all_reduce_bytes_per_s, kLink.bytes_per_s / kSlack);
    EXPECT_LT(t.levels[0].all_reduce_bytes_per_s, kLink.bytes_per_s * 1.2);
  }
}

TEST(MeasuredNetwork, OfOtherNumbersOfRanksIsRefused) {
  auto transports = memory_transports(1);
  Communicator one(std::move(transports[0]), {});
  const std::vector<int> two = {2}, alone = {1};
  EXPECT_EQ(testing::error_of([&] { measure_network(one, two, {}, system_clock()); }),
            "levels of 2 devices in all, but there are 1 ranks");
  EXPECT_EQ(measure_network(one, alone, {}, system_clock()).levels[0].p2p_bytes_per_s, 0);
}

}  // namespace
}  // namespace ndtrain
