// The freeze boundary: cuts a graph into the part that no trainable parameter can influence, and
// the rest.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "framework/graph/graph.h"

namespace ndtrain {

struct Split {
  Graph extractor;                    // outputs are the features, in order, by their own names
  Graph trainable;                    // takes the features as inputs, by the same names
  std::vector<std::string> features;  // values that cross
};

// Cuts as late as `trainable` allows. An output of `g` that is frozen crosses as a feature and is
// handed on by the trainable half. What depends on no input of `g` never crosses: a half that needs
// it computes it. Throws Error if nothing is trainable.
Split split(const Graph& g, std::span<const ValueId> trainable);

// Cuts at `features`, which must be legal: earlier than `trainable` allows is fine (what lies
// between goes to the trainable half, still frozen), later is refused with Error.
Split split_at(const Graph& g, std::span<const ValueId> features,
               std::span<const ValueId> trainable);

// Cuts after the first `nodes` nodes: the forward and the backward part of a differentiated graph,
// say. The values that cross are what the first half must save for the second.
Split split_after(const Graph& g, size_t nodes);

}  // namespace ndtrain
