// From the forms of a Model (opset 21) back to opset 17, which every runtime in use reads.
#pragma once

#include <functional>

#include "framework/onnx/onnx_model.h"
#include "framework/onnx/problems.h"

namespace ndtrain {

// The type a value of the model has at some batch size; null when shapes cannot be inferred.
using TypeOf = std::function<const TensorType*(const std::string& value)>;

// Adds the nodes of `from` and the functions they call to `to`. Nodes that opset 17 cannot express,
// and ops of ours that ONNX does not have, are added to `problems`.
void lower_nodes(const Model& from, const TypeOf& type_of, OnnxModel& to, Problems& problems);

}  // namespace ndtrain
