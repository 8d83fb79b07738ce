#include "framework/onnx/tensor_file.h"

#include <onnx/onnx_pb.h>

#include "framework/core/limits.h"
#include "framework/core/publish.h"
#include "framework/onnx/tensor_proto.h"

namespace ndtrain {

Result<NamedTensor> read_tensor_file(Fs& fs, const std::string& path) {
  Result<std::string> bytes = fs.read(path, limits::kModelFile);
  if (!bytes.ok()) return bytes.status();
  onnx::TensorProto p;
  if (!p.ParseFromString(*bytes)) return Status(Code::kCorrupt, path + ": not a TensorProto");
  try {
    return NamedTensor{p.name(), tensor_from_proto(p, nullptr)};
  } catch (const Error& e) {
    return Status(Code::kCorrupt, path + ": " + e.what());
  }
}

Status write_tensor_file(Fs& fs, const std::string& path, const NamedTensor& t) {
  if (static_cast<int64_t>(t.tensor.bytes()) > limits::kModelFile - 4096) {
    return {Code::kTooLarge, path + ": a tensor file holds at most 2 GiB"};
  }
  onnx::TensorProto p;
  tensor_to_proto(t.tensor, t.name, p);
  return publish(fs, path, p.SerializeAsString());
}

}  // namespace ndtrain
