// What collectives cost between the ranks of a training, measured where it runs.
#pragma once

#include <functional>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/parallel/comm_plan.h"
#include "framework/parallel/cost_profile.h"

namespace ndtrain {

struct CollectiveCostOptions {
  int64_t least_elements = int64_t{8} << 10, most_elements = int64_t{4} << 20;
  // No size is begun that would go beyond it, as the times of the one before have it; two sizes are
  // measured in any case.
  double budget_s = 3;
};

// Seconds that an operation on so many elements takes, repeated as often as is worth while.
using TimeCollective = std::function<std::vector<double>(PlannedOp::Kind, int64_t elements)>;

// Fills in the five collectives, from the medians of sizes that are four times the one before.
// Returns the seconds that were spent. Throws Error where fit_collective() does.
double measure_collectives(const TimeCollective& time, const CollectiveCostOptions& options,
                           CostProfile& costs);

// As above, by operations between ranks that have shards [first_shards[r], first_shards[r + 1]):
// sums are of as many subtrees as the training's; or between those of `among` (between_ranks.h), of
// which it is the r-th. An operation takes as long as on the rank where
// it takes longest. Collective, and equal on all ranks. Nothing else may be under way.
double measure_collectives(Communicator& communicator, const std::vector<int>& first_shards,
                           const CollectiveCostOptions& options, Clock& clock, CostProfile& costs,
                           const RankGroup& among = {});

}  // namespace ndtrain
