#include "framework/train/safetensors.h"

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "framework/core/limits.h"

namespace ndtrain {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<DType, const char*>, 13> kNames = {{{DType::kF32, "F32"},
                                                                   {DType::kF16, "F16"},
                                                                   {DType::kBF16, "BF16"},
                                                                   {DType::kF64, "F64"},
                                                                   {DType::kI8, "I8"},
                                                                   {DType::kU8, "U8"},
                                                                   {DType::kI16, "I16"},
                                                                   {DType::kU16, "U16"},
                                                                   {DType::kI32, "I32"},
                                                                   {DType::kU32, "U32"},
                                                                   {DType::kI64, "I64"},
                                                                   {DType::kU64, "U64"},
                                                                   {DType::kBool, "BOOL"}}};

const char* dtype_name(DType t) {
  for (const auto& [dtype, name] : kNames) {
    if (dtype == t) return name;
  }
  throw Error("safetensors: no name for dtype ", name_of(t));
}

DType dtype_of(const std::string& name) {
  for (const auto& [dtype, n] : kNames) {
    if (name == n) return dtype;
  }
  throw Error("unknown dtype ", name);
}

Tensor read_tensor(const Json& entry, std::string_view data) {
  const auto begin = entry.at("data_offsets").at(0).get<uint64_t>();
  const auto end = entry.at("data_offsets").at(1).get<uint64_t>();
  Shape shape(entry.at("shape").get<std::vector<int64_t>>());
  const TensorType type{dtype_of(entry.at("dtype").get<std::string>()), std::move(shape)};
  if (begin > end || end > data.size() || end - begin != type.bytes()) {
    throw Error("offsets ", begin, " to ", end, " do not fit ", type, " in ", data.size(),
                " bytes");
  }
  Tensor t(type);
  std::memcpy(t.mutable_data(), data.data() + begin, end - begin);
  return t;
}

}  // namespace

std::string to_safetensors(const TensorFile& file) {
  Json header = Json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  size_t offset = 0;
  for (const auto& [name, t] : file.tensors) {
    header[name] = {{"dtype", dtype_name(t.type().dtype)},
                    {"shape", t.shape().dims()},
                    {"data_offsets", {offset, offset + t.bytes()}}};
    offset += t.bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data begins aligned
  const uint64_t length = text.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof length);
  out.reserve(sizeof length + text.size() + offset);
  out += text;
  for (const auto& [name, t] : file.tensors)
    out.append(static_cast<const char*>(t.data()), t.bytes());
  return out;
}

Result<TensorFile> from_safetensors(std::string_view bytes) try {
  uint64_t length = 0;
  if (bytes.size() < sizeof length)
    return Status(Code::kCorrupt, "safetensors: shorter than its header");
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > limits::kSafetensorsHeader || length > bytes.size() - sizeof length) {
    return Status(Code::kCorrupt, "safetensors: a header of " + std::to_string(length) + " bytes");
  }
  const Json header = Json::parse(bytes.substr(sizeof length, length));
  const std::string_view data = bytes.substr(sizeof length + length);
  TensorFile file;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      file.metadata = entry.get<std::map<std::string, std::string>>();
    } else {
      file.tensors.emplace(name, read_tensor(entry, data));
    }
  }
  return file;
} catch (const std::exception& e) {  // Json's own exceptions and Error: the file is to blame
  return Status(Code::kCorrupt, std::string("safetensors: ") + e.what());
}

}  // namespace ndtrain
