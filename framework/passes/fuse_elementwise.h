// Elementwise ops in a row as one FusedElementwise, where a device has that as a kernel: what lies
// between them need not go to memory and back.
#pragma once

#include <span>

#include "framework/passes/offer.h"

namespace ndtrain {

// Two ops or more of one float type, of which only the last is read by others, as far as they fit
// into kMostElementwiseSteps and kMostElementwiseInputs; single numbers that do not change become
// part of the steps. Groups that are refused stay as they were. All of `keep` stay values of the
// result, and may change from run to run.
Rewritten fuse_elementwise(const Graph& g, std::span<const ValueId> keep, const Offer& accepts);

}  // namespace ndtrain
