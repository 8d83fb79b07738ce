#include "framework/parallel/buckets.h"
#include "framework/parallel/schedules/schedules.h"

namespace ndtrain {

CommPlan rb_plan(const CostProfile& costs, const ScheduleOptions& options) {
  CommPlan plan{.buckets = layer_buckets(costs), .prefetch = options.prefetch};
  add_from_back(plan, PlannedOp::Kind::kReduce);
  add_from_front(plan, PlannedOp::Kind::kBroadcast);
  return plan;
}

}  // namespace ndtrain
