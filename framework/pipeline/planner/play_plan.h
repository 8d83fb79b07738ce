// A plan as the instructions of its schedule carry it out, in virtual time: the steady state that
// the planner has in formulas, by other means, and what pipeline_svg() draws.
#pragma once

#include "framework/pipeline/planner/model_profile.h"
#include "framework/pipeline/planner/pipeline_plan.h"
#include "framework/pipeline/planner/planner.h"
#include "framework/pipeline/planner/topology.h"
#include "framework/pipeline/schedules/simulate_pipeline.h"

namespace ndtrain {

struct PlayedPlan {
  PipeShape shape;
  PipelineCosts costs;
  PipelinePrediction prediction;
};

// Of so many mini-batches until the flush. A stage takes what its nodes do by the profile, and an
// exchange what the simulator of framework/parallel says that "auto" takes beyond computing. The
// copy to the device, and loading that takes longer than the rest, are in the first stage's forward
// passes. Values go straight to each stage that reads them, over the link of the level that joins
// the two. Throws Error: a plan of other nodes, or of another number of devices, a schedule that
// has no list of instructions, and where simulate_pipeline() does.
PlayedPlan play_plan(const PipelinePlan& plan, const ModelProfile& profile,
                     const Topology& topology, const PipelinePlanOptions& options,
                     int64_t mini_batches);

}  // namespace ndtrain
