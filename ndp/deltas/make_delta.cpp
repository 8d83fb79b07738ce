#include <map>

#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "ndp/deltas/delta.h"
#include "ndp/deltas/elements.h"

namespace ndtrain::ndp {
namespace {

using namespace delta_format;
using Kind = TensorChange::Kind;

// Index of the tensor a difference is from, by name; first of a name.
std::map<std::string_view, size_t> by_name(const ModelParts& a) {
  std::map<std::string_view, size_t> index;
  for (size_t i = 0; i < a.tensors.size(); ++i) index.emplace(a.tensors[i].name, i);
  return index;
}

struct Encoded {
  Kind kind = Kind::kNew;
  std::string bytes;
};

void take_shorter(Encoded& best, Kind kind, std::string bytes) {
  if (bytes.size() < best.bytes.size()) best = {kind, std::move(bytes)};
}

Encoded encode(std::string_view tensor, std::string_view base, uint32_t element) {
  if (tensor == base) return {Kind::kUnchanged, ""};
  Encoded best{Kind::kNew, pack_planes(tensor, {}, element)};
  if (base.empty()) return best;
  take_shorter(best, Kind::kDifference, pack_planes(tensor, base, element));
  if (tensor.size() == base.size()) {
    if (auto sparse = pack_sparse(tensor, base, element)) {
      take_shorter(best, Kind::kSparse, std::move(*sparse));
    }
  }
  return best;
}

std::string_view of(std::string_view file, const TensorExtent& e) {
  return file.substr(e.offset, e.length);
}

void put_digest(std::string& to, std::string_view file) {
  const Digest digest = sha256(file);
  to.append(digest.begin(), digest.end());
}

Delta make(std::string_view base, std::string_view result) {
  const ModelParts from = dissect(base), to = dissect(result);
  const std::map<std::string_view, size_t> names = by_name(from);
  Delta delta;
  std::string ways, values;
  for (const TensorExtent& e : to.tensors) {
    std::string_view before;
    const auto name = names.find(e.name);
    if (name != names.end() && from.tensors[name->second].element == e.element) {
      before = of(base, from.tensors[name->second]);
    }
    const Encoded encoded = encode(of(result, e), before, e.element);
    ways += static_cast<char>(encoded.kind);
    if (encoded.kind != Kind::kNew) put_varint(ways, name->second);
    values += encoded.bytes;
    delta.tensors.push_back({e.name, encoded.kind, e.length, encoded.bytes.size()});
  }
  std::string& out = delta.bytes;
  out = kMagic;
  out += static_cast<char>(kFormat);
  put_digest(out, base);
  put_digest(out, result);
  put_varint(out, to.frame.size());
  out += pack(to.frame, from.frame);
  put_varint(out, ways.size());
  out += pack(ways);
  out += values;
  return delta;
}

}  // namespace

uint64_t largest_result(uint64_t base_bytes) {
  constexpr uint64_t kRoom = uint64_t{1} << 20;
  return std::min<uint64_t>(2 * base_bytes + kRoom, limits::kModelFile);
}

Result<Delta> make_delta(std::string_view base, std::string_view result) try {
  if (result.size() > largest_result(base.size())) {
    return Status(Code::kTooLarge, "a model of " + std::to_string(result.size()) +
                                       " bytes is not made of one of " +
                                       std::to_string(base.size()));
  }
  return make(base, result);
} catch (const Error& e) {
  return Status(Code::kCorrupt, e.what());
}

}  // namespace ndtrain::ndp
