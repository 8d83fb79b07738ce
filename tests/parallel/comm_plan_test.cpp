#include "framework/parallel/comm_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "tests/parallel/random_costs.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;
using Kind = PlannedOp::Kind;

const std::vector<ParameterRange> kTwo = {{10, 30}, {0, 10}};

std::string refusal(const CommPlan& plan, int64_t elements = 30) {
  try {
    validate(plan, elements);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(CommPlan, TextNamesOperationsInOrderAndJoinsCalls) {
  const CommPlan plan{.buckets = kTwo,
                      .ops = {{Kind::kReduceScatter, 1},
                              {Kind::kReduceScatter, 0},
                              {Kind::kAllGather, 1, true},
                              {Kind::kAllGather, 0}}};
  EXPECT_EQ(plan.text(), "R1 R0+A1 A0");
  EXPECT_EQ(refusal(plan), "accepted");
  const CommPlan other{.buckets = {{20, 30}, {10, 20}, {0, 10}},
                       .ops = {{Kind::kAllReduce, 2},
                               {Kind::kReduce, 0},
                               {Kind::kReduce, 1},
                               {Kind::kBroadcast, 0},
                               {Kind::kBroadcast, 1}}};
  EXPECT_EQ(other.text(), "AR2 Re0 Re1 B0 B1");
  EXPECT_EQ(refusal(other), "accepted");
  EXPECT_EQ(CommPlan{}.text(), "");
}

TEST(CommPlan, OperationsAreAddedFromBothEnds) {
  CommPlan plan{.buckets = kTwo};
  add_from_back(plan, Kind::kReduce);
  add_from_front(plan, Kind::kBroadcast);
  EXPECT_EQ(plan.text(), "Re1 Re0 B0 B1");
}

TEST(CommPlan, BucketsCoverTheSpaceOnce) {
  const std::vector<PlannedOp> ops = {{Kind::kAllReduce, 1}, {Kind::kAllReduce, 0}};
  EXPECT_EQ(refusal({.buckets = kTwo, .ops = ops}), "accepted");
  EXPECT_THAT(refusal({.buckets = kTwo, .ops = ops}, 31), HasSubstr("bucket 0"));
  EXPECT_THAT(refusal({.buckets = {{0, 10}, {10, 30}}, .ops = ops}), HasSubstr("bucket 0"));
  EXPECT_THAT(refusal({.buckets = {{10, 30}, {0, 9}}, .ops = ops}), HasSubstr("bucket 1"));
  EXPECT_THAT(refusal({.buckets = {{10, 30}, {0, 11}}, .ops = ops}), HasSubstr("bucket 1"));
  EXPECT_THAT(refusal({.buckets = {{10, 30}, {2, 10}}, .ops = ops}), HasSubstr("0 to 2"));
  EXPECT_THAT(refusal({.buckets = {{10, 30}, {12, 10}, {0, 12}}, .ops = ops}),
              HasSubstr("bucket 1"));
}

TEST(CommPlan, EveryBucketIsSummedOnceAndWholly) {
  const auto of = [](std::vector<PlannedOp> ops) {
    return refusal({.buckets = kTwo, .ops = std::move(ops)});
  };
  EXPECT_THAT(of({{Kind::kAllReduce, 1}}), HasSubstr("bucket 0 is not summed"));
  EXPECT_THAT(of({{Kind::kAllReduce, 1}, {Kind::kReduceScatter, 0}}),
              HasSubstr("bucket 0 is not summed on every rank"));
  EXPECT_THAT(of({{Kind::kAllReduce, 1}, {Kind::kAllReduce, 1}}), HasSubstr("sums bucket 1 again"));
  EXPECT_THAT(of({{Kind::kAllReduce, 1}, {Kind::kReduce, 1}}), HasSubstr("sums bucket 1 again"));
  EXPECT_THAT(of({{Kind::kAllGather, 1}, {Kind::kReduceScatter, 1}}), HasSubstr("A1 has no R1"));
  EXPECT_THAT(of({{Kind::kReduce, 1}, {Kind::kAllGather, 1}}), HasSubstr("A1 has no R1"));
  EXPECT_THAT(of({{Kind::kReduceScatter, 1}, {Kind::kBroadcast, 1}}), HasSubstr("B1 has no Re1"));
  EXPECT_THAT(of({{Kind::kReduceScatter, 1}, {Kind::kAllGather, 1}, {Kind::kAllGather, 1}}),
              HasSubstr("A1 has no R1"));
  EXPECT_THAT(of({{Kind::kAllReduce, 2}}), HasSubstr("AR2 is of no bucket"));
  EXPECT_THAT(of({{Kind::kAllReduce, -1}}), HasSubstr("AR-1 is of no bucket"));
}

TEST(CommPlan, ACallHasNothingThatWaitsForItself) {
  EXPECT_THAT(refusal({.buckets = kTwo, .ops = {{Kind::kAllReduce, 1, true}}}),
              HasSubstr("AR1 has no operation before it"));
  EXPECT_THAT(refusal({.buckets = kTwo,
                       .ops = {{Kind::kReduceScatter, 1},
                               {Kind::kReduceScatter, 0, true},
                               {Kind::kAllGather, 1, true}}}),
              HasSubstr("A1 is in one call with what it waits for"));
}

TEST(CommPlan, AShardedOptimizerNeedsSlicesOfEveryBucket) {
  CommPlan plan{.buckets = kTwo, .shard_optimizer = true};
  add_from_back(plan, Kind::kReduceScatter);
  add_from_front(plan, Kind::kAllGather);
  EXPECT_EQ(refusal(plan), "accepted");
  plan.ops = {{Kind::kAllReduce, 1}, {Kind::kAllReduce, 0}};
  EXPECT_THAT(refusal(plan), HasSubstr("AR1 leaves a sharded optimizer no slices"));
  EXPECT_THAT(refusal({.buckets = kTwo, .prefetch = -1}), HasSubstr("prefetch is -1"));
}

TEST(CommPlan, GathersGoBehindAllSumsInForwardOrder) {
  CommPlan plan{.buckets = kTwo,
                .ops = {{Kind::kReduceScatter, 1},
                        {Kind::kReduceScatter, 0},
                        {Kind::kAllGather, 1, true},
                        {Kind::kAllGather, 0}}};
  EXPECT_EQ(plan.text(), "R1 R0+A1 A0");
  EXPECT_EQ(gathers_behind_sums(plan).text(), "R1 R0 A0 A1");
  plan.ops = {{Kind::kAllReduce, 1}, {Kind::kAllReduce, 0}};
  EXPECT_EQ(gathers_behind_sums(plan), plan);
}

TEST(CommPlan, RandomPlansAreValidWhichOtherTestsUse) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const CostProfile costs = testing::random_costs(seed, 12);
    Rng rng(seed, "plan");
    const CommPlan plan = testing::random_plan(costs, rng);
    EXPECT_EQ(refusal(plan, costs.parameter_count()), "accepted") << seed << ": " << plan.text();
  }
}

}  // namespace
}  // namespace ndtrain
