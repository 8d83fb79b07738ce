#include "framework/pipeline/planner/stage_exchange.h"

#include <cmath>

#include "framework/parallel/schedules/schedules.h"
#include "framework/parallel/simulate.h"

namespace ndtrain {
namespace {

// More find little, and there are many stages.
constexpr int kEvaluations = 400;
constexpr const char* kSync = "auto";

}  // namespace

CostProfile exchange_costs(std::span<const NodeProfile* const> nodes, const Topology& topology,
                           const DeviceGroup& devices, double optimizer_s_per_byte, double share) {
  CostProfile costs{.source = "measured"};
  set_collectives(topology, devices, costs);
  costs.optimizer_s_per_element = optimizer_s_per_byte * CostProfile::kElementBytes;
  for (const NodeProfile* n : nodes) {
    const auto elements =
        static_cast<int64_t>(std::ceil(n->parameter_bytes / CostProfile::kElementBytes));
    if (elements > 0 || costs.layers.empty()) costs.layers.push_back({.elements = elements});
    costs.layers.back().forward_s += n->forward.of_share(share);
    costs.layers.back().backward_s += n->backward_s(share);
  }
  return costs;
}

double exchanged_step_s(const CostProfile& costs) {
  return predicted_step_s(make_comm_plan(kSync, costs, {.evaluations = kEvaluations}), costs);
}

}  // namespace ndtrain
