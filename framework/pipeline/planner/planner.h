// Which stages, how many replicas of each, which schedule: a dynamic programme over sets of nodes
// (Narayanan et al., "PipeDream", SOSP'19; AshPipe, HPC Asia'24). Pure.
#pragma once

#include <string_view>

#include "framework/core/limits.h"
#include "framework/pipeline/planner/model_profile.h"
#include "framework/pipeline/planner/pipeline_plan.h"
#include "framework/pipeline/planner/topology.h"

namespace ndtrain {

// What is looked for: any plan; one stage on all devices; a stage on each device.
enum class PlanPreset : uint8_t { kHybrid, kDataParallel, kPipeline };
PlanPreset plan_preset_named(std::string_view name);  // hybrid, dp, pipeline; throws Error

struct PipelinePlanOptions {
  bool published_costs = false;  // AshPipe's cost model and levels, to the letter
  PlanPreset preset = PlanPreset::kHybrid;
  std::string schedule = "auto";      // else one of pipeline_rules(): measured costs alone
  bool recompute = true;              // where memory is short
  bool fewer = false;                 // devices may be left over
  bool compress_branches = false;     // computed_nodes.h
  double minibatch_ratio = 1;         // of the mini-batch to that of the profile
  double activation_compression = 1;  // what is sent between stages is so many times smaller
  int most_states = 3'000;
  // Of a mini-batch; limits::kPlannedMicroBatches is the most. Batch statistics are of one each.
  int64_t least_micro_batches = 1, most_micro_batches = limits::kPlannedMicroBatches;
};

// By AshPipe's costs: the recurrence that published_search.h states. By measured ones: the plan
// that measured_search.h finds. Throws Error: a profile or a topology that makes no sense, too many
// states (how many, and what helps), a plan that needs more nodes than there are, no plan that fits
// into the memory (how much is missing where, and what would help).
PipelinePlan plan_pipeline(const ModelProfile& profile, const Topology& topology,
                           const PipelinePlanOptions& options = {});

}  // namespace ndtrain
