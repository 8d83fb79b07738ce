// The double interpreter: runs a graph by its ops' references. The oracle for everything else, and
// never used in place of a kernel.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "framework/graph/graph.h"

namespace ndtrain {

using DoubleValues = std::map<ValueId, std::vector<double>>;

// Computes every value of `g` from the inputs in `given`. Params and constants come from the graph
// unless `given` has them.
DoubleValues interpret(const Graph& g, DoubleValues given);

// Just the outputs, as tensors.
std::vector<Tensor> interpret_outputs(const Graph& g, std::span<const Tensor> inputs);

}  // namespace ndtrain
