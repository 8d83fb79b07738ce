// MatMul, Softmax, MatMul as one FusedAttention, where a device has that as a kernel.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "framework/graph/graph.h"

namespace ndtrain {

struct Rewritten {
  Graph graph;
  std::vector<ValueId> now;  // by value of the original; kNone: nothing needs it any more
};

// Whether a device takes `attention`, a node of `g`.
using OfferAttention = std::function<bool(const Graph& g, const Node& attention)>;

// Each chain becomes one node if the device takes that; a scale and a mask between the products go
// along. All of `keep` stay values of the result, and what `keep` gives may change from run to run.
Rewritten fuse_attention(const Graph& g, std::span<const ValueId> keep,
                         const OfferAttention& accepts);

}  // namespace ndtrain
