#include "framework/parallel/buckets.h"
#include "framework/parallel/schedules/schedules.h"

namespace ndtrain {

CommPlan ddp_plan(const CostProfile& costs, const ScheduleOptions& options) {
  CommPlan plan{.buckets = back_buckets(costs, options.first_bucket_bytes, options.bucket_bytes),
                .update_late = false};
  add_from_back(plan, PlannedOp::Kind::kAllReduce);
  return plan;
}

}  // namespace ndtrain
