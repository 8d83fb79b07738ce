// The first step of a plan: nodes that the device would rather have fused.
#pragma once

#include <span>
#include <vector>

#include "framework/runtime/backend.h"

namespace ndtrain {

struct FusedGraph {
  Graph graph;
  std::vector<ValueId> now;  // by value of the original; kNone: nothing needs it any more
};

// Every optional fusion that `device` takes. `bindings` are given at every run: they stay values of
// the result, and no fusion may take one for a constant.
FusedGraph fuse_for(const Device& device, const Graph& g, std::span<const ValueId> bindings);

std::vector<ValueId> translated(std::span<const ValueId> values, std::span<const ValueId> now);

}  // namespace ndtrain
