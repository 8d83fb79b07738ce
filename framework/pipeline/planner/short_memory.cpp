#include "framework/pipeline/planner/short_memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace ndtrain {
namespace {

std::string gigabytes(double bytes) { return fmt::format("{:.4g} GB", bytes / 1e9); }

}  // namespace

Error short_memory(const std::vector<PlannedStage>& least, const Topology& topology,
                   const PipelinePlanOptions& options) {
  const auto largest = std::ranges::max_element(least, {}, &PlannedStage::memory_bytes);
  std::string helps = "more devices, smaller mini-batches (--minibatch-ratio), or fewer moments";
  if (options.preset != PlanPreset::kHybrid) helps = "--preset hybrid, " + helps;
  if (!options.recompute) helps = "recomputing (no --no-recompute), " + helps;
  return Error(fmt::format(
      "plan: no plan fits into {} a device: even the one that needs least lacks {} at stage {} of "
      "{} "
      "({} to {}, replicas {}, versions {}), which takes {}. What would help: {}",
      gigabytes(topology.memory_bytes), gigabytes(largest->memory_bytes - topology.memory_bytes),
      largest - least.begin(), least.size(), largest->nodes.front(), largest->nodes.back(),
      largest->replicas, largest->versions, gigabytes(largest->memory_bytes), helps));
}

Error idle_devices(const ComputedNodes& nodes, const Topology& topology, int64_t batch) {
  const std::string rows =
      batch > 0 ? " and " + std::to_string(batch) + " rows for replicas, each of which has one"
                : "";
  return Error("plan: some of ", topology.devices(), " devices would have no work: there are ",
               nodes.nodes.size(), " nodes for stages", rows,
               ". Fewer devices, --use-fewer, or --preset hybrid");
}

}  // namespace ndtrain
