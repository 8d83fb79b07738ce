#include <algorithm>

#include "framework/parallel/buckets.h"
#include "framework/parallel/schedules/schedules.h"

namespace ndtrain {

// From the back: layer l, with what is merged into it, could start at c and take t; layer l-1 is
// ready at e. They become one bucket when l-1 is ready before l would have ended, and either the
// link is taken until then, or it idles for less than another latency. Small ones always do.
CommPlan mg_wfbp_plan(const CostProfile& costs, const ScheduleOptions&) {
  constexpr int64_t kFewElements = 8192;
  std::vector<bool> begins(costs.layers.size());
  double link_free = 0, ready = 0;
  int64_t merged = 0;
  for (size_t l = costs.layers.size(); l-- > 1;) {
    ready += costs.layers[l].backward_s;
    merged += costs.layers[l].elements;
    const double e = ready + costs.layers[l - 1].backward_s;
    const double c = std::max(link_free, ready);
    const double t = costs.all_reduce.seconds(merged);
    const bool merge = e < c + t && (c > e || e - c < costs.all_reduce.alpha_s);
    if (merge || merged < kFewElements) continue;
    begins[l] = true;
    link_free = c + t;
    merged = 0;
  }
  CommPlan plan{.buckets = cut_buckets(costs, begins), .update_late = false};
  add_from_back(plan, PlannedOp::Kind::kAllReduce);
  return plan;
}

}  // namespace ndtrain
