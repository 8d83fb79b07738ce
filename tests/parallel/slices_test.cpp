// Which rank makes which part of the sums, and the norm that comes of the parts.
#include "framework/parallel/slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>

#include "framework/comm/memory_transport.h"
#include "framework/parallel/gather_slices.h"
#include "framework/parallel/norm_exchange.h"
#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Slices, AreWholeLinesAsEqualAsCanBe) {
  EXPECT_THAT(slice_begins({0, 160}, 4), ElementsAre(0, 48, 96, 128, 160));
  EXPECT_THAT(slice_begins({64, 96}, 3), ElementsAre(0, 16, 32, 32));
  EXPECT_THAT(slice_begins({0, 40}, 2), ElementsAre(0, 32, 40));
}

CommPlan two_buckets(PlannedOp::Kind first, PlannedOp::Kind second) {
  CommPlan plan{.buckets = {{96, 208}, {0, 96}}, .ops = {}};
  for (const auto kind : {first, second}) add_from_back(plan, kind);
  return plan;
}

TEST(Slices, CoverEachBucketOnceOrAreAllOfRankZero) {
  const CommPlan halves = two_buckets(PlannedOp::Kind::kReduceScatter, PlannedOp::Kind::kAllGather);
  for (const int ranks : {1, 2, 3, 5, 9}) {
    for (size_t b = 0; b < halves.buckets.size(); ++b) {
      int64_t at = halves.buckets[b].begin;
      for (int r = 0; r < ranks; ++r) {
        EXPECT_EQ(slice_of(halves, b, r, ranks).begin, at);
        at = slice_of(halves, b, r, ranks).end;
      }
      EXPECT_EQ(at, halves.buckets[b].end);
    }
  }
  const CommPlan reduced = two_buckets(PlannedOp::Kind::kReduce, PlannedOp::Kind::kBroadcast);
  EXPECT_EQ(slice_of(reduced, 0, 0, 3), (ParameterRange{96, 208}));
  EXPECT_EQ(slice_of(reduced, 0, 2, 3).size(), 0);
  const auto rising = slices_of_rank(halves, 1, 2);
  ASSERT_EQ(rising.size(), 2);
  EXPECT_LE(rising[0].end, rising[1].begin);
}

void by_each_rank(int ranks, const std::function<void(Communicator&, const RankGroup&)>& run) {
  auto transports = memory_transports(ranks);
  RankGroup group;
  for (int r = 0; r < ranks; ++r) group.push_back(r);
  std::vector<std::jthread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&, t = std::move(transport)]() mutable {
      Communicator communicator(std::move(t), {.in_flight = 1});
      run(communicator, group);
      const auto end = communicator.enqueue({.group = group, .name = "end"});
      communicator.release(end);
      communicator.wait(end);
    });
  }
}

std::vector<float> random_space(int64_t elements) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(elements));
  for (float& v : values) v = normal(random);
  return values;
}

TEST(NormExchange, HasTheBitsOfOneProcessWhoeverMadeWhichSums) {
  constexpr int64_t kElements = 208;
  const std::vector<float> all = random_space(kElements);
  const Subtree whole{0, norm_leaves(kElements)};
  const double squares[] = {sum_of_squares(whole, all.data())};
  const double expected = norm_of({&whole, 1}, squares, whole.end);
  double plain = 0;
  for (const float x : all) plain += static_cast<double>(x) * static_cast<double>(x);
  EXPECT_NEAR(expected, std::sqrt(plain), 1e-12);
  for (const CommPlan& plan :
       {two_buckets(PlannedOp::Kind::kReduceScatter, PlannedOp::Kind::kAllGather),
        two_buckets(PlannedOp::Kind::kReduce, PlannedOp::Kind::kBroadcast)}) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      by_each_rank(ranks, [&](Communicator& communicator, const RankGroup& group) {
        // What the others have made sums of is not here.
        std::vector<float> own(all.size(), HUGE_VALF);
        for (const ParameterRange& s : slices_of_rank(plan, communicator.rank(), ranks)) {
          std::copy(all.begin() + s.begin, all.begin() + s.end, own.begin() + s.begin);
        }
        NormExchange exchange(communicator, group, plan, kElements);
        exchange.enqueue();
        EXPECT_EQ(exchange.norm(own.data()), expected);
        exchange.enqueue();
        exchange.leave_out();
      });
    }
  }
}

TEST(NormExchange, BucketsThatDoNotEndWithLinesAreRefused) {
  by_each_rank(1, [](Communicator& communicator, const RankGroup& group) {
    CommPlan plan{.buckets = {{24, 208}, {0, 24}}, .ops = {}};
    add_from_back(plan, PlannedOp::Kind::kAllReduce);
    EXPECT_THAT(testing::error_of([&] { NormExchange(communicator, group, plan, 208); }),
                HasSubstr("multiples of 16"));
  });
}

TEST(GatherSlices, PutsTogetherWhatEachRankHas) {
  const std::vector<float> all = random_space(208);
  const CommPlan plan = two_buckets(PlannedOp::Kind::kReduceScatter, PlannedOp::Kind::kAllGather);
  for (const int ranks : {1, 2, 3, 9}) {
    by_each_rank(ranks, [&](Communicator& communicator, const RankGroup& group) {
      std::vector<float> own(all.size());
      for (const ParameterRange& s : slices_of_rank(plan, communicator.rank(), ranks)) {
        std::copy(all.begin() + s.begin, all.begin() + s.end, own.begin() + s.begin);
      }
      gather_slices(communicator, group, plan, own);
      EXPECT_EQ(own, all);
    });
  }
}

}  // namespace
}  // namespace ndtrain
