// What is between the ranks of a training, measured by messages and sums among them: what the
// planner goes by (framework/pipeline/planner/topology.h).
#pragma once

#include <span>

#include "framework/comm/communicator.h"
#include "framework/pipeline/planner/topology.h"

namespace ndtrain {

struct NetworkOptions {
  int64_t least_bytes = int64_t{8} << 10, most_bytes = int64_t{16} << 20;
  // For each kind of each level no size is begun that would go beyond it, as the times of the one
  // before have it; two sizes are measured in any case.
  double budget_s = 2;
};

// Ranks of `units` of each level, the inner one first, follow one another as devices do. A level is
// measured between the first ranks of the first units that it joins: latency and bandwidth of a
// message, and of an all-reduce of them all; of more than two also whether one that sends to two at
// once is slower. On all ranks the same. Collective; nothing else may be under way. Throws Error
// where there are not as many ranks, RankLost where one is.
Topology measure_network(Communicator& communicator, std::span<const int> units,
                         const NetworkOptions& options, Clock& clock);

}  // namespace ndtrain
