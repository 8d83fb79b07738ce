// Joins without copies: a Concat over channels whose parts are computed where they belong in it, by
// kernels that may leave gaps between images.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/graph/graph.h"

namespace ndtrain {

// The nodes that compute the parts of Concat `n`, in order, when every part is computed for it
// alone; empty when one is not.
std::vector<size_t> part_producers(const Graph& g, const Node& n);

// Where part k of Concat `n` begins in it, in bytes.
size_t part_offset(const Graph& g, const Node& n, size_t k);

}  // namespace ndtrain
