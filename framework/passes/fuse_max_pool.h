// A convolution and the MaxPool that alone reads it as one ConvMaxPool, where a device has that as
// a kernel: what is pooled need not leave its cache.
#pragma once

#include <span>

#include "framework/passes/offer.h"

namespace ndtrain {

// Of a Conv or FusedConv without a residual, or of several that a Concat joins by channels: they
// are joined once they are pooled, which gives the same numbers. All of `keep` stay values of the
// result; what `keep` gives may change from run to run.
Rewritten fuse_max_pool(const Graph& g, std::span<const ValueId> keep, const Offer& accepts);

}  // namespace ndtrain
