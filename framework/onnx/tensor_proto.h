// ONNX's TensorProto and our Tensor.
#pragma once

#include <string>

#include "framework/core/tensor.h"
#include "framework/onnx/external_data.h"

namespace onnx {
class TensorProto;
}

namespace ndtrain {

// TensorProto.DataType and DType. Throws Error naming a type we do not have.
DType dtype_from_onnx(int64_t type);
int64_t dtype_to_onnx(DType t);
std::string onnx_dtype_name(int64_t type);

// Throws Error without naming the tensor: the caller knows what it is. Bytes are counted before
// anything is allocated. `external` may be null.
Tensor tensor_from_proto(const onnx::TensorProto& p, const ExternalData* external);

void tensor_to_proto(const Tensor& t, const std::string& name, onnx::TensorProto& p);
// All but its elements.
void describe_to_proto(const Tensor& t, const std::string& name, onnx::TensorProto& p);

}  // namespace ndtrain
