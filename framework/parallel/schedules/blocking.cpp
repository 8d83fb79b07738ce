#include "framework/parallel/buckets.h"
#include "framework/parallel/schedules/schedules.h"

namespace ndtrain {

// From the front: nothing goes out before the gradient that is complete last.
CommPlan blocking_plan(const CostProfile& costs, const ScheduleOptions&) {
  CommPlan plan{.buckets = layer_buckets(costs), .update_late = false};
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    plan.ops.push_back({PlannedOp::Kind::kAllReduce, static_cast<int>(b)});
  }
  return plan;
}

}  // namespace ndtrain
