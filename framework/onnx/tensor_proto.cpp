#include "framework/onnx/tensor_proto.h"

#include <onnx/onnx_pb.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <utility>

namespace ndtrain {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

using onnx::TensorProto;

constexpr std::array<std::pair<DType, int>, 13> kTypes = {{
    {DType::kF32, TensorProto::FLOAT},
    {DType::kU8, TensorProto::UINT8},
    {DType::kI8, TensorProto::INT8},
    {DType::kU16, TensorProto::UINT16},
    {DType::kI16, TensorProto::INT16},
    {DType::kI32, TensorProto::INT32},
    {DType::kI64, TensorProto::INT64},
    {DType::kBool, TensorProto::BOOL},
    {DType::kF16, TensorProto::FLOAT16},
    {DType::kF64, TensorProto::DOUBLE},
    {DType::kU32, TensorProto::UINT32},
    {DType::kU64, TensorProto::UINT64},
    {DType::kBF16, TensorProto::BFLOAT16},
}};

// What newer files may name than the generated classes know.
constexpr std::array<const char*, 29> kNames = {
    "undefined",      "float",      "uint8",          "int8",       "uint16",    "int16",
    "int32",          "int64",      "string",         "bool",       "float16",   "double",
    "uint32",         "uint64",     "complex64",      "complex128", "bfloat16",  "float8e4m3fn",
    "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4",      "int4",      "float4e2m1",
    "float8e8m0",     "uint2",      "int2",           "float6e2m3", "float6e3m2"};

void check_count(int64_t have, int64_t want, const char* field, const TensorType& type) {
  if (have != want) {
    throw Error(type, " needs ", want, " elements, but ", field, " has ", have);
  }
}

template <typename To, typename List>
void copy_values(const List& from, Tensor& t, const char* field) {
  check_count(from.size(), t.shape().count(), field, t.type());
  To* to = t.mutable_as<To>().data();
  for (int i = 0; i < from.size(); ++i) {
    if constexpr (std::is_integral_v<To>) {
      if (!std::in_range<To>(from[i])) {
        throw Error(t.type(), " cannot hold ", from[i], ", element ", i, " of ", field);
      }
    }
    to[i] = static_cast<To>(from[i]);
  }
}

int64_t typed_count(const TensorProto& p, DType t) {
  switch (t) {
    case DType::kF32:
      return p.float_data_size();
    case DType::kF64:
      return p.double_data_size();
    case DType::kI64:
      return p.int64_data_size();
    case DType::kU32:
    case DType::kU64:
      return p.uint64_data_size();
    default:
      return p.int32_data_size();
  }
}

void copy_typed(const TensorProto& p, Tensor& t) {
  switch (t.type().dtype) {
    case DType::kF32:
      return copy_values<float>(p.float_data(), t, "float_data");
    case DType::kF64:
      return copy_values<double>(p.double_data(), t, "double_data");
    case DType::kI64:
      return copy_values<int64_t>(p.int64_data(), t, "int64_data");
    case DType::kU32:
      return copy_values<uint32_t>(p.uint64_data(), t, "uint64_data");
    case DType::kU64:
      return copy_values<uint64_t>(p.uint64_data(), t, "uint64_data");
    case DType::kI32:
      return copy_values<int32_t>(p.int32_data(), t, "int32_data");
    case DType::kI16:
      return copy_values<int16_t>(p.int32_data(), t, "int32_data");
    case DType::kI8:
      return copy_values<int8_t>(p.int32_data(), t, "int32_data");
    case DType::kU8:
    case DType::kBool:
      return copy_values<uint8_t>(p.int32_data(), t, "int32_data");
    default:  // u16, and f16 and bf16 as bit patterns
      return copy_values<uint16_t>(p.int32_data(), t, "int32_data");
  }
}

int64_t parse_number(const std::string& key, const std::string& text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 0) {
    throw Error("external data: ", key, " '", text, "' is not a size");
  }
  return n;
}

Tensor read_external(const TensorProto& p, TensorType type, const ExternalData* external) {
  if (external == nullptr) {
    throw Error(
        "is stored outside the model, which is to be one file: ndtrain model import "
        "writes that");
  }
  std::string location;
  int64_t offset = 0, length = -1;
  for (const auto& entry : p.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = parse_number("offset", entry.value());
    if (entry.key() == "length") length = parse_number("length", entry.value());
  }
  // Without a length, exporters mean as much as the tensor takes.
  const auto bytes = static_cast<int64_t>(type.bytes());
  if (length >= 0 && length != bytes) {
    throw Error(type, " takes ", bytes, " bytes, but its external length is ", length);
  }
  external->check(location, offset, bytes);
  Tensor t(std::move(type));
  external->read(location, offset, {static_cast<std::byte*>(t.mutable_data()), t.bytes()});
  return t;
}

// A bool of another value than 0 and 1 is undefined behaviour to read.
void normalise_bools(Tensor& t) {
  if (t.type().dtype != DType::kBool) return;
  for (uint8_t& b : t.mutable_as<uint8_t>()) b = b != 0;
}

}  // namespace

std::string onnx_dtype_name(int64_t type) {
  if (type >= 0 && type < static_cast<int64_t>(kNames.size())) return kNames[type];
  return "type " + std::to_string(type);
}

DType dtype_from_onnx(int64_t type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  throw Error("tensors of ONNX ", onnx_dtype_name(type), " are not supported");
}

int64_t dtype_to_onnx(DType t) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == t) return theirs;
  }
  throw Error("ONNX has no type for ", static_cast<int>(t));
}

Tensor tensor_from_proto(const TensorProto& p, const ExternalData* external) {
  TensorType type{dtype_from_onnx(p.data_type()), {}};
  if (p.has_segment()) throw Error("is a segment of a tensor, which is not supported");
  type.shape = Shape(std::vector<int64_t>(p.dims().begin(), p.dims().end()));
  const bool outside = p.data_location() == TensorProto::EXTERNAL;
  if (outside) {
    Tensor t = read_external(p, std::move(type), external);
    normalise_bools(t);
    return t;
  }
  const int64_t typed = typed_count(p, type.dtype);
  if (p.has_raw_data() && !p.raw_data().empty()) {
    if (typed > 0) throw Error("has its values twice, in raw_data and in typed data");
    if (p.raw_data().size() != type.bytes()) {
      throw Error(type, " takes ", type.bytes(), " bytes, but raw_data has ", p.raw_data().size());
    }
    Tensor t(std::move(type));
    std::memcpy(t.mutable_data(), p.raw_data().data(), t.bytes());
    normalise_bools(t);
    return t;
  }
  check_count(typed, type.shape.count(), p.has_raw_data() ? "raw_data" : "its data", type);
  Tensor t(std::move(type));
  copy_typed(p, t);
  normalise_bools(t);
  return t;
}

void describe_to_proto(const Tensor& t, const std::string& name, TensorProto& p) {
  p.set_name(name);
  p.set_data_type(static_cast<int32_t>(dtype_to_onnx(t.type().dtype)));
  for (int64_t d : t.shape().dims()) p.add_dims(d);
}

void tensor_to_proto(const Tensor& t, const std::string& name, TensorProto& p) {
  describe_to_proto(t, name, p);
  p.set_raw_data(t.data(), t.bytes());
}

}  // namespace ndtrain
