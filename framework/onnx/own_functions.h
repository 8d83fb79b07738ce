// Ops of ours that ONNX has only since opset 18 or later. They are exported as calls of functions
// in our domain to opsets that have them not, with their bodies in that opset, so that any runtime
// computes them; import takes the calls back as the ops they stand for.
#pragma once

#include <string_view>

#include "framework/onnx/onnx_model.h"

namespace ndtrain {

inline constexpr const char* kOwnDomain = "ndtrain";

struct OwnFunction {
  std::string_view name;  // of the function
  std::string_view op;    // with exactly these attributes
  int until;              // the last opset that does not have it
  Attrs attrs;
  OnnxFunction (*body)(int opset);
};

const OwnFunction* own_function_named(std::string_view name);
// Null where `opset` has the op, or it is none of these.
const OwnFunction* own_function_for(const ModelNode& node, int opset);

}  // namespace ndtrain
