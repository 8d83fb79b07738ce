#include "framework/parallel/schedules/schedules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "tests/parallel/random_costs.h"

namespace ndtrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Three layers from the front; a second of all-reduce for an element, 1/2 for its halves.
CostProfile three_layers() { return testing::network({{4, 1, 2}, {8, 1, 2}, {16, 1, 2}}, 0, 0.25); }

std::string refusal(const std::string& schedule, const CostProfile& costs,
                    const ScheduleOptions& options = {}) {
  try {
    make_comm_plan(schedule, costs, options);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Schedules, AnUnknownNameIsAnsweredWithAll) {
  EXPECT_THAT(refusal("ring", three_layers()),
              HasSubstr("'ring'; there are blocking, wfbp, ddp, rb, mg-wfbp, bytescheduler, dear, "
                        "pipedap, auto"));
}

TEST(Schedules, CostsAndSizesAreChecked) {
  CostProfile costs = three_layers();
  costs.layers[1].elements = -1;
  for (const NamedSchedule& s : schedules()) {
    EXPECT_THAT(refusal(std::string(s.name), costs), HasSubstr("layers/1 has -1 elements"));
  }
  EXPECT_THAT(refusal("ddp", three_layers(), {.bucket_bytes = 0}), HasSubstr("bytes is 0"));
  EXPECT_THAT(refusal("dear", three_layers(), {.bucket_layers = -1}), HasSubstr("layers is -1"));
  EXPECT_THAT(refusal("dear", three_layers(), {.bucket_layers = 1, .bucket_wait_s = 1}),
              HasSubstr("by layers or by waiting"));
  EXPECT_THAT(refusal("dear", three_layers(), {.prefetch = -2}), HasSubstr("prefetch is -2"));
  EXPECT_THAT(refusal("bytescheduler", three_layers(), {.partition_bytes = 0}),
              HasSubstr("elements of a piece is 0"));
  EXPECT_THAT(refusal("bytescheduler", three_layers(), {.credit_bytes = 0}),
              HasSubstr("credit of 0"));
}

TEST(Schedules, BlockingWaitsForTheGradientThatIsCompleteLast) {
  const CommPlan plan = make_comm_plan("blocking", three_layers());
  EXPECT_EQ(plan.text(), "AR0 AR1 AR2");
  EXPECT_FALSE(plan.update_late);
}

TEST(Schedules, WfbpTakesLayersAsTheirGradientsComeAndTheForwardPassWaitsForEach) {
  const CommPlan plan = make_comm_plan("wfbp", three_layers());
  EXPECT_EQ(plan.text(), "AR2 AR1 AR0");
  EXPECT_TRUE(plan.update_late);
}

TEST(Schedules, DdpHasASmallBucketAtTheBackAndUpdatesBehindAll) {
  const CommPlan plan =
      make_comm_plan("ddp", three_layers(), {.bucket_bytes = 48, .first_bucket_bytes = 4});
  EXPECT_EQ(plan.buckets, (std::vector<ParameterRange>{{16, 28}, {0, 16}}));
  EXPECT_EQ(plan.text(), "AR1 AR0");
  EXPECT_FALSE(plan.update_late);
}

TEST(Schedules, RbBroadcastsUnderTheNextForwardPass) {
  const CommPlan plan = make_comm_plan("rb", three_layers());
  EXPECT_EQ(plan.text(), "Re2 Re1 Re0 B0 B1 B2");
  EXPECT_TRUE(plan.update_late);
  EXPECT_EQ(plan.prefetch, 1);
}

TEST(Schedules, DearGathersUnderTheNextForwardPass) {
  const CommPlan layers = make_comm_plan("dear", three_layers(), {.bucket_layers = 1});
  EXPECT_EQ(layers.text(), "R2 R1 R0 A0 A1 A2");
  EXPECT_EQ(layers.prefetch, 1);
  EXPECT_EQ(make_comm_plan("dear", three_layers()).text(), "R0 A0");
  EXPECT_EQ(make_comm_plan("dear", three_layers(), {.bucket_bytes = 64}).buckets,
            (std::vector<ParameterRange>{{16, 28}, {0, 16}}));
  EXPECT_EQ(make_comm_plan("dear", three_layers(), {.bucket_layers = 2}).buckets,
            (std::vector<ParameterRange>{{16, 28}, {0, 16}}));
  EXPECT_EQ(make_comm_plan("dear", three_layers(), {.bucket_wait_s = 1.5}).buckets,
            (std::vector<ParameterRange>{{24, 28}, {16, 24}, {0, 16}}));
}

// Gradients at 1, 2 and 3 s; 8192 elements, which are not too few, take .25 s.
TEST(Schedules, MgWfbpMergesWhatWouldWaitForTheLink) {
  const auto buckets = [](std::vector<int64_t> elements, double alpha_s) {
    std::vector<CostProfile::Layer> layers;
    for (const int64_t e : elements) layers.push_back({e, 0, 1});
    const CostProfile costs = testing::network(layers, alpha_s, 0.25 / 4 / 8192);
    std::vector<int64_t> sizes;
    for (const ParameterRange& b : make_comm_plan("mg-wfbp", costs).buckets) {
      sizes.push_back(b.size());
    }
    return sizes;
  };
  constexpr int64_t kOne = 8192;
  // The back one ends at 2.885 s, the link idles .115 s for the front one.
  EXPECT_THAT(buckets({kOne, kOne, 61'440}, 0.01), ElementsAre(kOne, kOne, 61'440));
  // It ends at 2.9 s: .1 s is less than two latencies of .2 s, which a merge saves one of.
  EXPECT_THAT(buckets({kOne, kOne, 55'706}, 0.2), ElementsAre(2 * kOne, 55'706));
  // It ends at 4.01 s, when both others are long ready.
  EXPECT_THAT(buckets({kOne, kOne, 12 * kOne}, 0.01), ElementsAre(2 * kOne, 12 * kOne));
  // Its neighbour is ready within the latency.
  EXPECT_THAT(buckets({kOne, kOne, kOne}, 1.01), ElementsAre(3 * kOne));
  // Below 8192 elements a layer always goes with the next.
  EXPECT_THAT(buckets({kOne, kOne - 1, kOne - 1}, 0), ElementsAre(kOne, 2 * kOne - 2));
}

TEST(Schedules, ByteschedulerSendsFrontPiecesFirstOnceThereIsCredit) {
  // A second for an element; layer 1 is ready at 1 s and has four pieces, layer 0 at 3 s.
  const CostProfile costs = testing::network({{4, 1, 2}, {16, 1, 1}}, 0, 0.25);
  const auto order = [&](int64_t credit_elements) {
    return make_comm_plan("bytescheduler", costs,
                          {.partition_bytes = 16, .credit_bytes = 4 * credit_elements})
        .text();
  };
  EXPECT_EQ(order(1), "AR1 AR0 AR2 AR3 AR4") << "a piece above all credit goes alone";
  EXPECT_EQ(order(4), "AR1 AR0 AR2 AR3 AR4");
  EXPECT_EQ(order(8), "AR1 AR2 AR0 AR3 AR4");
  EXPECT_EQ(order(12), "AR1 AR2 AR3 AR0 AR4");
  EXPECT_EQ(order(16), "AR1 AR2 AR3 AR4 AR0");
}

TEST(Schedules, PipedapOfFewLayersIsDears) {
  EXPECT_EQ(make_comm_plan("pipedap", testing::network({{4, 1, 2}}, 0.1, 0.25)).text(), "R0 A0");
  const CommPlan two = make_comm_plan("pipedap", testing::network({{4, 9, 2}, {4, 9, 2}}, 0.1, 1));
  EXPECT_EQ(two.text(), "R1 R0 A0 A1");
}

TEST(Schedules, AShardedOptimizerMakesHalvesOfEverySum) {
  for (const NamedSchedule& s : schedules()) {
    if (s.name == "rb") continue;
    const CommPlan plan =
        make_comm_plan(s.name, three_layers(), {.bucket_layers = 1, .shard_optimizer = true});
    EXPECT_TRUE(plan.shard_optimizer) << s.name;
    EXPECT_EQ(plan.ops.size(), 2 * plan.buckets.size()) << s.name;
  }
  EXPECT_EQ(make_comm_plan("wfbp", three_layers(), {.shard_optimizer = true}).text(),
            "R2 A2 R1 A1 R0 A0");
  EXPECT_THAT(refusal("rb", three_layers(), {.shard_optimizer = true}), HasSubstr("no slices"));
}

TEST(Schedules, PlansAreAFunctionOfTheCosts) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const CostProfile costs = testing::random_costs(seed, 30);
    for (const NamedSchedule& s : schedules()) {
      EXPECT_EQ(make_comm_plan(s.name, costs), make_comm_plan(s.name, costs)) << s.name;
    }
  }
}

}  // namespace
}  // namespace ndtrain
