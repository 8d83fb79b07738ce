#include "framework/pipeline/planner/planner.h"

#include <cmath>

#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "framework/pipeline/planner/closed_sets.h"
#include "framework/pipeline/planner/computed_nodes.h"
#include "framework/pipeline/planner/measured_search.h"
#include "framework/pipeline/planner/published_search.h"

namespace ndtrain {
namespace {

struct NamedPreset {
  std::string_view name;
  PlanPreset preset;
};
constexpr NamedPreset kPresets[] = {{"hybrid", PlanPreset::kHybrid},
                                    {"dp", PlanPreset::kDataParallel},
                                    {"pipeline", PlanPreset::kPipeline}};

void check(const Topology& topology, const PipelinePlanOptions& options) {
  if (topology.levels.empty()) throw Error("plan: no level of devices");
  int64_t devices = 1;
  for (const Topology::Level& l : topology.levels) {
    devices *= l.units;
    if (l.units < 1 || devices > limits::kRanks) {
      throw Error("plan: a level of ", l.units, " units: 1 or more, and not above ", limits::kRanks,
                  " devices in all");
    }
    for (const double rate : {l.all_reduce_bytes_per_s, l.p2p_bytes_per_s}) {
      if (!(rate > 0)) throw Error("plan: a bandwidth of ", rate, " bytes/s, not above 0");
    }
  }
  for (const double x : {options.minibatch_ratio, options.activation_compression}) {
    if (!(x > 0) || !std::isfinite(x)) {
      throw Error("plan: a ratio of ", x, ", not above 0 and finite");
    }
  }
}

ClosedSets closed_sets(const ComputedNodes& nodes, int most) {
  std::vector<std::vector<int>> inputs;
  inputs.reserve(nodes.nodes.size());
  for (const NodeProfile& n : nodes.nodes) inputs.push_back(n.inputs);
  return {inputs, most};
}

}  // namespace

PlanPreset plan_preset_named(std::string_view name) {
  for (const NamedPreset& p : kPresets) {
    if (p.name == name) return p.preset;
  }
  throw Error("there is no preset '", name, "'; there are hybrid, dp, pipeline");
}

PipelinePlan plan_pipeline(const ModelProfile& profile, const Topology& topology,
                           const PipelinePlanOptions& options) {
  validate(profile, "profile");
  check(topology, options);
  PipelinePlan plan;
  if (options.published_costs) {
    const ComputedNodes nodes = computed_nodes(profile, options.compress_branches);
    plan = published_plan(nodes, closed_sets(nodes, options.most_states), topology, options);
  } else {
    const ModelProfile planned = with_minibatch_ratio(profile, options.minibatch_ratio);
    const ComputedNodes nodes = computed_nodes(planned, options.compress_branches);
    plan = measured_plan(nodes, closed_sets(nodes, options.most_states), topology,
                         {profile.optimizer_s_per_byte, profile.moment_bytes_per_byte},
                         planned.batch, options);
  }
  plan.model = profile.model;
  return plan;
}

}  // namespace ndtrain
