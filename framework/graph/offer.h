// Fused nodes that no device has to have: a pass makes one where a device says that it takes it.
#pragma once

#include <functional>
#include <vector>

#include "framework/graph/graph.h"

namespace ndtrain {

// Whether a device takes `fused`, the last node of `g`.
using Offer = std::function<bool(const Graph& g, const Node& fused)>;

struct Rewritten {
  Graph graph;
  std::vector<ValueId> now;  // by value of the original; kNone: nothing needs it any more
};

}  // namespace ndtrain
