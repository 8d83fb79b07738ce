// Functions that exporters spell out in elementary ops, since the opset they wrote had no more, as
// the ops that they are: backends have kernels for those, and other passes know them.
#pragma once

#include "framework/graph/graph.h"

namespace ndtrain {

// Where nobody else reads what lies between, and constants are what they should be:
//   Gelu                x * (1 + erf(x / sqrt(2))) / 2, factors in any order
//   HardSwish           x * HardSigmoid(x) with alpha 1/6 and beta 1/2
//   LayerNormalization  (x - mean) / sqrt(var + epsilon) * scale + bias over the last axis
Graph recognise_functions(const Graph& g);

}  // namespace ndtrain
