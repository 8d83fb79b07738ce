#include "framework/parallel/buckets.h"
#include "framework/parallel/schedules/schedules.h"

namespace ndtrain {

CommPlan wfbp_plan(const CostProfile& costs, const ScheduleOptions&) {
  CommPlan plan{.buckets = layer_buckets(costs)};
  add_from_back(plan, PlannedOp::Kind::kAllReduce);
  return plan;
}

}  // namespace ndtrain
