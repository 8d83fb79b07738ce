// From the forms of a Model (opset 21) to those of the opset that is written.
#pragma once

#include "framework/onnx/normalise.h"
#include "framework/onnx/onnx_model.h"
#include "framework/onnx/problems.h"

namespace ndtrain {

// Adds the nodes of `from`, normalised, and the functions they call to `to`. Nodes that `opset`
// cannot express, and ops of ours that ONNX does not have, are added to `problems`.
void lower_nodes(const Model& from, ValueTypes& types, int opset, OnnxModel& to,
                 Problems& problems);

// The first opset, from 17 on, that says all that any opset does.
int least_opset(const Model& from, ValueTypes& types);

}  // namespace ndtrain
