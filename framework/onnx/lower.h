// From the forms of a Model (opset 21) back to opset 17, which every runtime in use reads.
#pragma once

#include "framework/onnx/onnx_model.h"
#include "framework/onnx/problems.h"

namespace ndtrain {

// Adds the nodes of `from`, normalised, and the functions they call to `to`. Nodes that opset 17
// cannot express, and ops of ours that ONNX does not have, are added to `problems`.
void lower_nodes(const Model& from, OnnxModel& to, Problems& problems);

}  // namespace ndtrain
