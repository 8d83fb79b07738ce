#pragma once

#include <span>
#include <vector>

#include "framework/graph/graph.h"

namespace ndtrain {

// Reverse mode: appends to `g` the nodes that compute d<seeds, outputs>/d(wrt) and returns the
// gradients in the order of `wrt`. What does not depend on `wrt` is skipped. seeds[i] has the type
// of outputs[i]. Throws Error naming an op on the way that has no gradient, or a wrt that no output
// depends on. `made_for` gets of each node of `g` the one it takes back; of those that were there,
// themselves.
std::vector<ValueId> differentiate(Graph& g, std::span<const ValueId> outputs,
                                   std::span<const ValueId> seeds, std::span<const ValueId> wrt,
                                   std::vector<size_t>* made_for = nullptr);

}  // namespace ndtrain
