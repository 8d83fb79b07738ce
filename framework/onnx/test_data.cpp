#include "framework/onnx/test_data.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "framework/onnx/tensor_file.h"

namespace ndtrain {
namespace {

Result<std::vector<Tensor>> read_all(Fs& fs, const std::string& directory, const std::string& stem,
                                     size_t count) {
  std::vector<Tensor> all;
  const auto path = [&](size_t i) {
    return join(directory, stem + "_" + std::to_string(i) + ".pb");
  };
  for (size_t i = 0; i < count; ++i) {
    Result<NamedTensor> t = read_tensor_file(fs, path(i));
    if (!t.ok()) return t.status();
    all.push_back(std::move(t->tensor));
  }
  if (fs.exists(path(count))) {
    return Status(Code::kCorrupt,
                  path(count) + ": the model has only " + std::to_string(count) + " " + stem + "s");
  }
  return all;
}

// CastLike's second input counts for its type alone, and ONNX's data for it has another shape.
std::set<std::string> read_names(const Model& model) {
  std::set<std::string> names(model.outputs.begin(), model.outputs.end());
  for (const ModelNode& n : model.nodes) {
    names.insert(n.inputs.begin(), n.op == "CastLike" ? n.inputs.begin() + 1 : n.inputs.end());
  }
  return names;
}

Tensor zeros_for(const ModelInput& in, int64_t batch) {
  std::vector<int64_t> dims = in.dims;
  std::ranges::replace(dims, kBatch, batch);
  return Tensor({in.dtype, Shape(std::move(dims))});
}

}  // namespace

Tensor as_wanted(const Tensor& t, DType wanted) {
  if (wanted != DType::kBF16 || t.type().dtype != DType::kU16) return t;
  Tensor bits({DType::kBF16, t.shape()});
  std::memcpy(bits.mutable_data(), t.data(), t.bytes());
  return bits;
}

Result<TestData> read_test_data(Fs& fs, const std::string& directory, const Model& model) {
  Result<std::vector<Tensor>> inputs = read_all(fs, directory, "input", model.inputs.size());
  if (!inputs.ok()) return inputs.status();
  Result<std::vector<Tensor>> outputs = read_all(fs, directory, "output", model.outputs.size());
  if (!outputs.ok()) return outputs.status();

  TestData data;
  data.outputs = std::move(*outputs);
  const std::set<std::string> read = read_names(model);
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const ModelInput& in = model.inputs[i];
    const Shape& shape = (*inputs)[i].shape();
    const bool batched = !in.dims.empty() && in.dims[0] == kBatch && shape.rank() > 0;
    if (batched && read.contains(in.name)) data.batch = std::max<int64_t>(1, shape[0]);
  }
  const std::vector<std::string> deciding = shape_inputs(model);
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const ModelInput& in = model.inputs[i];
    Tensor t =
        read.contains(in.name) ? as_wanted((*inputs)[i], in.dtype) : zeros_for(in, data.batch);
    if (std::ranges::find(deciding, in.name) != deciding.end()) {
      data.known[in.name] = std::move(t);
    } else {
      data.inputs.push_back(std::move(t));
    }
  }
  return data;
}

}  // namespace ndtrain
