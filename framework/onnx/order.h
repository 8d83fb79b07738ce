// Values of a model: each defined once, each use defined, and nodes in execution order.
#pragma once

#include "framework/onnx/onnx_model.h"
#include "framework/onnx/problems.h"

namespace ndtrain {

// Sorts the nodes where they are not in order (stable: an ordered model stays as it is). Names
// defined twice, inputs that come from nowhere and cycles (named) are added to `problems`.
void order_nodes(OnnxModel& model, Problems& problems);

}  // namespace ndtrain
