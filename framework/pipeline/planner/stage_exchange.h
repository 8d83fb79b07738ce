// The exchange of gradients between the replicas of a stage, as the simulator of framework/parallel
// has it.
#pragma once

#include <span>

#include "framework/parallel/cost_profile.h"
#include "framework/pipeline/planner/model_profile.h"
#include "framework/pipeline/planner/topology.h"

namespace ndtrain {

// Of these nodes, in the order of execution, each of the devices doing `share` of a mini-batch. A
// node without trained parameters counts with the layer in front of it.
CostProfile exchange_costs(std::span<const NodeProfile* const> nodes, const Topology& topology,
                           const DeviceGroup& devices, double optimizer_s_per_byte, double share);

// Of a step with its exchange, by the schedule "auto".
double exchanged_step_s(const CostProfile& costs);

}  // namespace ndtrain
