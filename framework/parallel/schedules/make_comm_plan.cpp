#include "framework/core/error.h"
#include "framework/parallel/schedules/schedules.h"

namespace ndtrain {
namespace {

// Each all-reduce becomes its halves, one directly behind the other.
CommPlan with_sharded_optimizer(CommPlan plan) {
  using Kind = PlannedOp::Kind;
  std::vector<PlannedOp> ops;
  for (const PlannedOp& op : plan.ops) {
    if (op.kind == Kind::kAllReduce) {
      ops.push_back({Kind::kReduceScatter, op.bucket});
      ops.push_back({Kind::kAllGather, op.bucket});
    } else {
      ops.push_back(op);
    }
  }
  plan.ops = std::move(ops);
  plan.shard_optimizer = true;
  return plan;
}

CommPlan checked_plan(MakePlan make, const CostProfile& costs, const ScheduleOptions& options) {
  CommPlan plan = make(costs, options);
  if (options.shard_optimizer) plan = with_sharded_optimizer(std::move(plan));
  validate(plan, costs.parameter_count());
  return plan;
}

}  // namespace

std::span<const NamedSchedule> schedules() {
  static constexpr NamedSchedule kAll[] = {
      {"blocking", blocking_plan}, {"wfbp", wfbp_plan},
      {"ddp", ddp_plan},           {"rb", rb_plan},
      {"mg-wfbp", mg_wfbp_plan},   {"bytescheduler", bytescheduler_plan},
      {"dear", dear_plan},         {"pipedap", pipedap_plan},
      {"auto", auto_plan},
  };
  return kAll;
}

CommPlan make_comm_plan(std::string_view schedule, const CostProfile& costs,
                        const ScheduleOptions& options) {
  validate(costs);
  std::string names;
  for (const NamedSchedule& s : schedules()) {
    if (s.name == schedule) return checked_plan(s.make, costs, options);
    names += (names.empty() ? "" : ", ") + std::string(s.name);
  }
  throw Error("unknown schedule '", schedule, "'; there are ", names);
}

}  // namespace ndtrain
