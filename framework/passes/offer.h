// Fused nodes that no device has to have: a pass makes one where a device says that it takes it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "framework/graph/graph.h"

namespace ndtrain {

// Whether a device takes `fused`, the last node of `g`.
using Offer = std::function<bool(const Graph& g, const Node& fused)>;

struct Rewritten {
  Graph graph;
  std::vector<ValueId> now;  // by value of the original; kNone: nothing needs it any more
};

// One node in place of several.
struct FusedNode {
  std::string op;
  std::vector<ValueId> inputs;
  Attrs attrs;
  std::vector<int> nodes;  // of the graph, ascending: the last one's output is the fused one's
};

// Asked in a graph of its own, where constants have their data, but for those of `varying`.
bool is_taken(const Graph& g, const FusedNode& fused, std::span<const ValueId> varying,
              const Offer& accepts);

// `g` with each fused node where the last that it is made of stood. All of `keep` stay values of
// the result.
Rewritten with_fused(const Graph& g, std::span<const ValueId> keep,
                     const std::vector<FusedNode>& fused);

}  // namespace ndtrain
