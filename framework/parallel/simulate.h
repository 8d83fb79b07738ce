// A step in virtual time: a lane that computes, and a link that carries the plan's operations in
// their order. A grouped call takes the largest latency of its operations and the time of all their
// bytes. Every bucket is read by the forward pass, so that nothing is left on the link when
// the next backward pass begins, and every period is as the first: from the beginning of a backward
// pass to the end of the next step's forward pass.
#pragma once

#include <string>
#include <vector>

#include "framework/parallel/comm_plan.h"
#include "framework/parallel/cost_profile.h"

namespace ndtrain {

struct StepPrediction {
  enum class Lane { kComputing, kLink };
  // "B3", "U3", "F3": backward, update, forward of layer 3; "R14+A15": operations of buckets.
  struct Span {
    std::string name;
    Lane lane;
    double begin_s, end_s;  // from the beginning of the backward pass
  };

  double step_s = 0;       // of the steady state
  double computing_s = 0;  // of it, so long something is computed
  double exposed_s = 0;    // the rest: computing waits for the link
  double bound_s = 0;      // lower_bound_s()
  std::vector<Span> spans;
};

// Throws Error where validate() does of plan or costs, and where an operation waits for a forward
// pass that waits for it.
StepPrediction simulate(const CommPlan& plan, const CostProfile& costs);

// StepPrediction::step_s alone, for searches: of a plan and costs that are valid.
double predicted_step_s(const CommPlan& plan, const CostProfile& costs);

// No plan takes less: the busier of the computing lane and of the link, were all exchanged at once
// by the cheapest collective.
double lower_bound_s(const CostProfile& costs, bool shard_optimizer = false);

const CostProfile::Collective& cost_of(PlannedOp::Kind kind, const CostProfile& costs);

}  // namespace ndtrain
