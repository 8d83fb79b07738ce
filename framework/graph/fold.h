#pragma once

#include <vector>

#include "framework/graph/graph.h"

namespace ndtrain {

// The outputs of a node all of whose inputs have data, by its reference.
std::vector<Tensor> run_on_constants(const Graph& g, const Node& n);

}  // namespace ndtrain
