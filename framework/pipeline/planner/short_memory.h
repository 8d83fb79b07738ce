// Why there is no plan.
#pragma once

#include <limits>
#include <vector>

#include "framework/core/error.h"
#include "framework/pipeline/planner/computed_nodes.h"
#include "framework/pipeline/planner/planner.h"

namespace ndtrain {

// What it costs where there is none.
inline constexpr double kNoPlan = std::numeric_limits<double>::infinity();

// `least` are the stages of the plan whose largest stage is smallest: where it lacks how much, and
// what would help.
Error short_memory(const std::vector<PlannedStage>& least, const Topology& topology,
                   const PipelinePlanOptions& options);

// There are more devices than nodes to be stages and rows (0: unknown) for replicas make use of.
Error idle_devices(const ComputedNodes& nodes, const Topology& topology, int64_t batch);

}  // namespace ndtrain
