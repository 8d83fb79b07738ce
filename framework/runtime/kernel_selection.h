// A kernel for every node of a laid-out graph. Private to Plan.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "framework/runtime/layout.h"
#include "framework/runtime/program.h"

namespace ndtrain {

struct KernelRefusal {
  size_t node;
  std::string reason;  // as the backends say it
};

struct KernelSelection {
  BatchTiling tiling;                   // the one asked for, or the part of it that kernels take
  std::vector<NodePlan> nodes;          // how each is run
  std::vector<PreparedKernel> kernels;  // by node; null where nothing runs
  std::set<ValueId> unpacked;           // constants that kernels read as they are
  std::vector<KernelRefusal> refusals;  // when there are any, the rest is of no use
};

// Asks the device about every node, its fallback about those that it refuses. `bound`: values that
// are given at every run. `elide_concats`: see concat_elision.h. Throws Error when a device fails.
KernelSelection select_kernels(const LayoutAssignment& laid, const Device& device,
                               const std::set<ValueId>& bound, bool elide_concats,
                               const BatchTiling& tiling);

// One for all of them, naming the nodes.
std::string text_of(const std::vector<KernelRefusal>& refusals, const Graph& g,
                    const Device& device);

}  // namespace ndtrain
