#include "framework/core/error.h"
#include "framework/parallel/buckets.h"
#include "framework/parallel/schedules/schedules.h"

namespace ndtrain {
namespace {

Buckets dear_buckets(const CostProfile& costs, const ScheduleOptions& options) {
  if (options.bucket_layers != 0 && options.bucket_wait_s != 0) {
    throw Error("dear: buckets are cut by layers or by waiting, not by both");
  }
  if (options.bucket_layers != 0) return layer_buckets(costs, options.bucket_layers);
  if (options.bucket_wait_s != 0) return waiting_buckets(costs, options.bucket_wait_s);
  return front_buckets(costs, options.bucket_bytes);
}

}  // namespace

CommPlan dear_plan(const CostProfile& costs, const ScheduleOptions& options) {
  CommPlan plan{.buckets = dear_buckets(costs, options), .prefetch = options.prefetch};
  add_from_back(plan, PlannedOp::Kind::kReduceScatter);
  add_from_front(plan, PlannedOp::Kind::kAllGather);
  return plan;
}

}  // namespace ndtrain
