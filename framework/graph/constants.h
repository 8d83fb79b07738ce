#pragma once

#include <vector>

#include "framework/graph/graph.h"

namespace ndtrain {

// The outputs of a node all of whose inputs have data, by its reference.
std::vector<Tensor> run_on_constants(const Graph& g, const Node& n);

// False when the outputs are large and larger than what they are made from: cheaper to recompute
// than to keep, and what an untrusted model asks for may not fit in memory.
bool worth_folding(const Graph& g, const Node& n);

}  // namespace ndtrain
