// A product of rows, its bias and its activation as one FusedMatMul, where a device has that as a
// kernel: what is multiplied is written once.
#pragma once

#include <span>

#include "framework/passes/offer.h"

namespace ndtrain {

// Of a MatMul by a matrix, or a Gemm that scales nothing, then an Add of one number per column,
// then Relu or Gelu; where that is refused, of the product and the Add alone. All of `keep` stay
// values of the result.
Rewritten fuse_matmul(const Graph& g, std::span<const ValueId> keep, const Offer& accepts);

}  // namespace ndtrain
