// The first step of a plan: nodes that the device would rather have fused.
#pragma once

#include <span>

#include "framework/passes/passes.h"
#include "framework/runtime/backend.h"

namespace ndtrain {

// What `device`, which must outlive it, has for a node that no backend has to take.
Accepts accepts_of(const Device& device);

// Every optional fusion that `device` takes. `bindings` are given at every run: they stay values of
// the result, and no fusion takes one for a constant.
Rewritten fuse_for(const Device& device, const Graph& g, std::span<const ValueId> bindings);

}  // namespace ndtrain
