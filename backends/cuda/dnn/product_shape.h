// The shape of the product that a node asks for.
#pragma once

#include "backends/cuda/dnn/product.h"
#include "backends/plugin/node.h"

namespace ndtrain::cuda {

using namespace plugin;  // NOLINT(google-build-using-namespace): all of it, here

// Inputs 0 and 1, with transA and transB.
ProductShape gemm_shape(const Node& node);

// Inputs `a` and `b` as NumPy multiplies them, with a stack as short as it can be. A right side
// that is the same for all may make one product of many rows; kept apart, there is a stack, if only
// of one, whatever the batch.
enum class Rows { kJoined, kApart };
ProductShape matmul_shape(const Node& node, int a, int b, Rows rows);

void need_row_major(const Node& node);  // all ports, or throws Unsupported

}  // namespace ndtrain::cuda
