// Replaces calls of a model's local functions by their bodies, nested ones and those in branches
// and loops too. Calls of our own (see own_functions.h) stay.
#pragma once

#include "framework/onnx/onnx_model.h"
#include "framework/onnx/problems.h"

namespace ndtrain {

// Afterwards no node of `model` calls a function. Recursion, nesting beyond limits::kFunctionDepth
// and calls that do not fit are added to `problems`; more than limits::kModelNodes nodes throws
// Error.
void inline_functions(OnnxModel& model, Problems& problems);

}  // namespace ndtrain
