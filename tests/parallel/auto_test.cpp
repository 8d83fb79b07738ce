#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "framework/parallel/gather_places.h"
#include "framework/parallel/schedules/schedules.h"
#include "framework/parallel/simulate.h"
#include "tests/parallel/random_costs.h"

namespace ndtrain {
namespace {

double step_s(std::string_view schedule, const CostProfile& costs, const ScheduleOptions& options) {
  return simulate(make_comm_plan(schedule, costs, options), costs).step_s;
}

TEST(Auto, IsNeverSlowerThanAnotherSchedule) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const CostProfile costs = testing::random_costs(seed, 40);
    for (const bool sharded : {false, true}) {
      const ScheduleOptions options{.evaluations = 500, .shard_optimizer = sharded};
      const double best = step_s("auto", costs, options);
      for (const NamedSchedule& s : schedules()) {
        if (sharded && s.name == "rb") continue;
        EXPECT_LE(best, step_s(s.name, costs, options)) << "seed " << seed << ": " << s.name;
      }
      ScheduleOptions dear = options;
      for (const int layers : {1, 4}) {
        dear.bucket_layers = layers;
        EXPECT_LE(best, step_s("dear", costs, dear)) << "seed " << seed;
      }
    }
  }
}

// Every place of every all-gather of single layers.
double exhaustive(const Buckets& buckets, const CostProfile& costs) {
  std::vector<GatherPlace> places(buckets.size());
  double best = std::numeric_limits<double>::infinity();
  const auto choose = [&](const auto& self, size_t b) -> void {
    if (b == buckets.size()) {
      best = std::min(best, predicted_step_s(plan_with(buckets, places, false), costs));
      return;
    }
    for (int behind = 0; behind <= static_cast<int>(b); ++behind) {
      for (const bool grouped : {false, true}) {
        if (grouped && behind == static_cast<int>(b)) continue;
        places[b] = {behind, grouped};
        self(self, b + 1);
      }
    }
  };
  choose(choose, 0);
  return best;
}

TEST(Auto, FindsWhatATrialOfAllPlacesFinds) {
  int bound_missed = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const CostProfile costs = testing::random_costs(seed, 5);
    const double best = exhaustive(layer_buckets(costs), costs);
    const double found = step_s("auto", costs, {});
    EXPECT_LE(found, best * (1 + 1e-9)) << "seed " << seed;
    bound_missed += best > 1.01 * lower_bound_s(costs) ? 1 : 0;
  }
  EXPECT_GT(bound_missed, 20) << "the order mattered in too few";
}

TEST(Auto, ASearchKeepsWhatIsBestAndItsBudget) {
  const CostProfile costs = testing::random_costs(3, 40);
  const Buckets buckets = layer_buckets(costs);
  const std::vector<GatherPlace> late(buckets.size());
  double before = predicted_step_s(plan_with(buckets, late, false), costs);
  for (const int evaluations : {1, 10, 100, 1000}) {
    const auto places = better_places(buckets, late, costs, false, evaluations);
    const double now = predicted_step_s(plan_with(buckets, places, false), costs);
    EXPECT_LE(now, before);
    before = now;
  }
  EXPECT_LT(before, predicted_step_s(plan_with(buckets, late, false), costs));
}

TEST(GatherPlaces, GapsTakeTheFrontBucketThatFits) {
  // Gradients at 1, 5, 9 and 13 s; halves of 1, 1, 1 and 3 s from the front.
  const CostProfile costs =
      testing::network({{4, 1, 4}, {4, 1, 4}, {4, 1, 4}, {12, 1, 1}}, 0, 0.125);
  const Buckets buckets = layer_buckets(costs);
  const auto text = [&](double overrun) {
    return plan_with(buckets, places_in_gaps(buckets, costs, overrun), false).text();
  };
  EXPECT_EQ(text(0), "R3 R2 A2 R1 A1 R0 A0 A3");
  EXPECT_EQ(text(0.5), "R3 R2 A2 A3 R1 A1 R0 A0");
}

}  // namespace
}  // namespace ndtrain
