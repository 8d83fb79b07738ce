// Where the weights lie in the bytes of an ONNX file, without making a model of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"

namespace ndtrain {

// The raw data of one initialiser.
struct TensorExtent {
  std::string name;
  uint64_t offset = 0, length = 0;  // bytes of the file
  uint32_t element = 1;             // bytes of one; length is a multiple of it
};

// All initialisers with raw data, by rising offset; the extents do not overlap. Values in typed
// fields, in external files and in attributes are not among them. kTooLarge beyond protobuf's
// limit; kCorrupt when the bytes are no protobuf message or have no graph. Untrusted input; nothing
// is parsed but the fields on the way.
Result<std::vector<TensorExtent>> tensor_extents(std::string_view onnx);

}  // namespace ndtrain
