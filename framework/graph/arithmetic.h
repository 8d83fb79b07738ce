#pragma once

#include "framework/graph/graph.h"

namespace ndtrain {

// Multiplications and additions in the sums of a node of `g`; 0 for ops that are not mostly sums of
// products.
double arithmetic(const Graph& g, const Node& n);

}  // namespace ndtrain
