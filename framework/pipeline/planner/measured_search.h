// Plans by measured costs (stage_costs.h). A stage has devices that follow each other, in the order
// of the stages; it need not keep to the units of a level. From the end, so that what a stage holds
// for the stages behind it is known:
//   best(1, k, d) = stage(k, end, devices from d on)
//   best(s, k, d) = min over j, r of max(stage(k, j, r devices from d on, s - 1 behind),
//                                        best(s - 1, j, d + r))
// and of all rules of schedules, micro-batches and numbers of stages the one that is done first. An
// exchange counts as the least it can take until a best plan has it; then it is simulated and the
// search is made again, until a best plan has none left to simulate: no other plan is better.
#pragma once

#include "framework/pipeline/planner/closed_sets.h"
#include "framework/pipeline/planner/computed_nodes.h"
#include "framework/pipeline/planner/planner.h"
#include "framework/pipeline/planner/stage_costs.h"

namespace ndtrain {

// Of all passes what gradients of weights take, for rules of schedules.
double weight_share(const ComputedNodes& nodes);

// `nodes` are of the mini-batch that is planned for, `batch` its rows (0: unknown). Throws Error
// where no plan fits.
PipelinePlan measured_plan(const ComputedNodes& nodes, const ClosedSets& sets,
                           const Topology& topology, const OptimizerCosts& optimizer, int64_t batch,
                           const PipelinePlanOptions& options);

}  // namespace ndtrain
