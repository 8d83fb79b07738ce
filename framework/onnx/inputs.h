#pragma once

#include "framework/onnx/import.h"
#include "framework/onnx/onnx_model.h"
#include "framework/onnx/problems.h"

namespace ndtrain {

// Gives `to` the inputs of `from`, their symbolic extents as `options` say. Those that `options`
// give a value become constants of `from` instead. What is wrong is added to `problems`.
void add_inputs(OnnxModel& from, const ImportOptions& options, Model& to, Problems& problems);

}  // namespace ndtrain
