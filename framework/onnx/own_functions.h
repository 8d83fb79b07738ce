// Ops of ours that ONNX has only since opset 18 or later. They are exported as calls of functions
// in our domain, with their bodies in opset 17, so that any runtime computes them; import takes the
// calls back as the ops they stand for.
#pragma once

#include <string_view>

#include "framework/onnx/onnx_model.h"

namespace ndtrain {

inline constexpr const char* kOwnDomain = "ndtrain";

struct OwnFunction {
  std::string_view name;  // of the function
  std::string_view op;    // with exactly these attributes
  Attrs attrs;
  OnnxFunction (*body)();
};

const OwnFunction* own_function_named(std::string_view name);
// Null where the op is an ordinary one of opset 17, or none.
const OwnFunction* own_function_for(const ModelNode& node);

}  // namespace ndtrain
