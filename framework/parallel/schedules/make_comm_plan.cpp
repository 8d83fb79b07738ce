#include "framework/core/error.h"
#include "framework/parallel/schedules/schedules.h"

namespace ndtrain {
namespace {

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
