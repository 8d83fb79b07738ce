// MatMul, Softmax, MatMul as one FusedAttention, where a device has that as a kernel.
#pragma once

#include <span>

#include "framework/passes/offer.h"

namespace ndtrain {

// Each chain becomes one node if the device takes that; a scale and a mask between the products go
// along. All of `keep` stay values of the result, and what `keep` gives may change from run to run.
Rewritten fuse_attention(const Graph& g, std::span<const ValueId> keep, const Offer& accepts);

}  // namespace ndtrain
