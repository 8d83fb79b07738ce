#pragma once

#include <vector>

#include "framework/graph/graph.h"

namespace ndtrain {

// A place where one value separates everything before it from everything behind it.
struct Cut {
  ValueId feature;
  size_t nodes_before;    // nodes in front, in the graph's order
  int64_t elements;       // of the feature, for the graph's batch
  int64_t params_behind;  // elements of parameters behind the cut
};

// Every single-value cut of a graph, front to back. The graph's own input is not one.
std::vector<Cut> legal_cuts(const Graph& g);

}  // namespace ndtrain
