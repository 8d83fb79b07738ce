#include "framework/onnx/tensor_extents.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <onnx/onnx_pb.h>

#include "framework/core/limits.h"

namespace ndtrain {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using onnx::TensorProto;

constexpr uint32_t tag(int field, WireFormatLite::WireType type) {
  return static_cast<uint32_t>(field) << 3 | type;
}
constexpr auto kBytes = WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
constexpr uint32_t kGraph = tag(onnx::ModelProto::kGraphFieldNumber, kBytes);
constexpr uint32_t kInitialiser = tag(onnx::GraphProto::kInitializerFieldNumber, kBytes);
constexpr uint32_t kType = tag(TensorProto::kDataTypeFieldNumber, WireFormatLite::WIRETYPE_VARINT);
constexpr uint32_t kName = tag(TensorProto::kNameFieldNumber, kBytes);
constexpr uint32_t kRawData = tag(TensorProto::kRawDataFieldNumber, kBytes);

uint32_t element_bytes(int32_t type) {
  switch (type) {
    case TensorProto::FLOAT:
    case TensorProto::INT32:
    case TensorProto::UINT32:
      return 4;
    case TensorProto::DOUBLE:
    case TensorProto::INT64:
    case TensorProto::UINT64:
      return 8;
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16:
    case TensorProto::INT16:
    case TensorProto::UINT16:
      return 2;
    default:
      return 1;
  }
}

class Scan {
 public:
  explicit Scan(std::string_view onnx)
      : bytes_(onnx),
        in_(reinterpret_cast<const uint8_t*>(onnx.data()), static_cast<int>(onnx.size())) {
    in_.PushLimit(static_cast<int>(onnx.size()));
  }

  bool model() {
    return fields([this](uint32_t t) {
      if (t != kGraph) return WireFormatLite::SkipField(&in_, t);
      has_graph_ = true;
      return inside([this] { return graph(); });
    });
  }
  bool has_graph() const { return has_graph_; }
  std::vector<TensorExtent> take() { return std::move(extents_); }

 private:
  template <typename F>
  bool fields(F f) {
    while (const uint32_t t = in_.ReadTag()) {
      if (!f(t)) return false;
    }
    return in_.ConsumedEntireMessage();
  }

  // The length of what follows, which is there.
  bool length(int& n) {
    uint32_t value = 0;
    if (!in_.ReadVarint32(&value)) return false;
    if (value > static_cast<uint32_t>(in_.BytesUntilLimit())) return false;
    n = static_cast<int>(value);
    return true;
  }

  template <typename F>
  bool inside(F f) {
    int n = 0;
    if (!length(n)) return false;
    const CodedInputStream::Limit outer = in_.PushLimit(n);
    const bool good = f();
    in_.PopLimit(outer);
    return good;
  }

  bool graph() {
    return fields([this](uint32_t t) {
      if (t != kInitialiser) return WireFormatLite::SkipField(&in_, t);
      return inside([this] { return tensor(); });
    });
  }

  // The last field of a kind counts, as it does when protobuf parses.
  bool tensor() {
    TensorExtent e;
    uint32_t type = 0;
    const bool good = fields([&](uint32_t t) {
      if (t == kType) return in_.ReadVarint32(&type);
      if (t != kName && t != kRawData) return WireFormatLite::SkipField(&in_, t);
      int n = 0;
      if (!length(n)) return false;
      const auto at = static_cast<size_t>(in_.CurrentPosition());
      if (t == kName) {
        e.name = bytes_.substr(at, static_cast<size_t>(n));
      } else {
        e.offset = at;
        e.length = static_cast<uint64_t>(n);
      }
      return in_.Skip(n);
    });
    if (!good) return false;
    e.element = element_bytes(static_cast<int32_t>(type));
    if (e.length % e.element != 0) e.element = 1;
    if (e.length > 0) extents_.push_back(std::move(e));
    return true;
  }

  std::string_view bytes_;
  CodedInputStream in_;
  bool has_graph_ = false;
  std::vector<TensorExtent> extents_;
};

}  // namespace

Result<std::vector<TensorExtent>> tensor_extents(std::string_view onnx) {
  if (static_cast<int64_t>(onnx.size()) > limits::kModelFile) {
    return Status(Code::kTooLarge, "a model of " + std::to_string(onnx.size()) + " bytes");
  }
  Scan scan(onnx);
  if (!scan.model() || !scan.has_graph()) {
    return Status(Code::kCorrupt, "not an ONNX model, or a truncated one");
  }
  return scan.take();
}

}  // namespace ndtrain
