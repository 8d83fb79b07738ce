#include "framework/train/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "framework/core/json_input.h"
#include "framework/core/limits.h"

namespace ndtrain {
namespace {

using SortedJson = nlohmann::json;  // keys in order, as other writers have them

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

// Bytes [begin, end) of the data.
using Range = std::pair<uint64_t, uint64_t>;

Range range_of(const SortedJson& entry) {
  const SortedJson& offsets = entry.at("data_offsets");
  if (offsets.size() != 2 || !offsets.at(0).is_number_unsigned() ||
      !offsets.at(1).is_number_unsigned()) {
    throw Error("offsets ", offsets.dump());
  }
  return {offsets.at(0).get<uint64_t>(), offsets.at(1).get<uint64_t>()};
}

// The tensors lie side by side and fill the data.
void check_cover(std::vector<Range> ranges, size_t bytes) {
  std::ranges::sort(ranges);
  uint64_t at = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != at) throw Error("tensors overlap or leave a hole at byte ", std::min(at, begin));
    at = end;
  }
  if (at != bytes) throw Error("tensors fill ", at, " of ", bytes, " bytes");
}

Tensor read_tensor(const SortedJson& entry, const Range& range, std::string_view data) {
  const auto [begin, end] = range;
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

std::string text_of(const SortedJson& header) try {
  return header.dump();
} catch (const SortedJson::exception& e) {
  throw Error("safetensors: a name or a text is not UTF-8: ", e.what());
}

}  // namespace

std::string to_safetensors(const TensorFile& file) {
  SortedJson header = SortedJson::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  size_t offset = 0;
  for (const auto& [name, t] : file.tensors) {
    header[name] = {{"dtype", dtype_name(t.type().dtype)},
                    {"shape", t.shape().dims()},
                    {"data_offsets", {offset, offset + t.bytes()}}};
    offset += t.bytes();
  }
  std::string text = text_of(header);
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
  const std::string_view text = bytes.substr(sizeof length, length);
  if (Status s = check_json(text, limits::kSafetensorsHeader); !s.ok()) return s;
  const SortedJson header = SortedJson::parse(text);
  const std::string_view data = bytes.substr(sizeof length + length);
  if (!header.is_object()) throw Error("the header is not an object");
  TensorFile file;
  std::vector<Range> ranges;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      file.metadata = entry.get<std::map<std::string, std::string>>();
    } else {
      ranges.push_back(range_of(entry));
      file.tensors.emplace(name, read_tensor(entry, ranges.back(), data));
    }
  }
  check_cover(std::move(ranges), data.size());
  return file;
} catch (const std::exception& e) {  // Json's own exceptions and Error: the file is to blame
  return Status(Code::kCorrupt, std::string("safetensors: ") + e.what());
}

}  // namespace ndtrain
