// The safetensors file format (huggingface/safetensors, README "Format"): u64 header length, a JSON
// header {name: {dtype, shape, data_offsets}, "__metadata__": {…}}, then the bytes.
#pragma once

#include <map>
#include <string>

#include "framework/core/fs.h"
#include "framework/core/tensor.h"

namespace ndtrain {

struct TensorFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Deterministic: equal content gives equal bytes.
std::string to_safetensors(const TensorFile& file);
// Untrusted input: kCorrupt when anything overlaps, is out of range, or does not add up.
Result<TensorFile> from_safetensors(std::string_view bytes);

}  // namespace ndtrain
