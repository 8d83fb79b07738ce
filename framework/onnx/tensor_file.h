// Tensors in files of their own, each a serialised TensorProto: the form of ONNX's test data.
#pragma once

#include <string>

#include "framework/core/fs.h"
#include "framework/core/tensor.h"

namespace ndtrain {

struct NamedTensor {
  std::string name;  // may be empty
  Tensor tensor;
};

// kCorrupt when it is no tensor of ours.
Result<NamedTensor> read_tensor_file(Fs& fs, const std::string& path);
Status write_tensor_file(Fs& fs, const std::string& path, const NamedTensor& t);

}  // namespace ndtrain
