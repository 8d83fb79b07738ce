// Where the all-gathers of a plan stand among its reduce-scatters, which are in the order in which
// gradients become complete: what a search for better plans changes.
#pragma once

#include <vector>

#include "framework/parallel/buckets.h"
#include "framework/parallel/comm_plan.h"

namespace ndtrain {

// Of the all-gather of bucket b: directly behind the reduce-scatter of bucket `behind`, which is b
// or in front of it. Several in one place are in forward order, those of a grouped call first.
struct GatherPlace {
  int behind = 0;
  bool grouped = false;  // in one call with that reduce-scatter; not with its own

  bool operator==(const GatherPlace&) const = default;
};

CommPlan plan_with(const Buckets& buckets, const std::vector<GatherPlace>& places,
                   bool shard_optimizer);

// Places for a link that would idle until the next gradient: the front one of those buckets that
// are reduced goes there, when not more than `overrun` of its time is left at the end of the gap.
// What finds no gap follows the last reduce-scatter, `rest_grouped`: in one call with it.
std::vector<GatherPlace> places_in_gaps(const Buckets& buckets, const CostProfile& costs,
                                        double overrun, bool rest_grouped = false);

// Moves one all-gather at a time, as long as the simulator says of a move that the step becomes
// shorter, and simulates at most `evaluations` steps.
std::vector<GatherPlace> better_places(const Buckets& buckets, std::vector<GatherPlace> places,
                                       const CostProfile& costs, bool shard_optimizer,
                                       int evaluations);

}  // namespace ndtrain
