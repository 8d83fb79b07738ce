#pragma once

#include <span>
#include <vector>

#include "framework/graph/graph.h"

namespace ndtrain {

// Reverse mode: appends to `g` the nodes that compute d<seeds, outputs>/d(wrt) and returns the
// gradients in the order of `wrt`. What does not depend on `wrt` is skipped. seeds[i] has the type
// of outputs[i]. Throws Error naming an op on the way that has no gradient, or a wrt that no output
// depends on.
std::vector<ValueId> differentiate(Graph& g, std::span<const ValueId> outputs,
                                   std::span<const ValueId> seeds, std::span<const ValueId> wrt);

}  // namespace ndtrain
