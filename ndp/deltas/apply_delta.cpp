#include <algorithm>
#include <cstring>

#include "framework/core/error.h"
#include "ndp/deltas/delta.h"
#include "ndp/deltas/elements.h"

namespace ndtrain::ndp {
namespace {

using namespace delta_format;
using Kind = TensorChange::Kind;

std::string short_hex(const Digest& d) { return to_hex(d).substr(0, 12); }

Digest read_digest(ByteReader& in) {
  Digest d;
  std::ranges::copy(in.bytes(kDigestBytes), d.begin());
  return d;
}

// Packed bytes before which their number stands.
std::string read_section(ByteReader& in, std::string_view prefix, uint64_t limit) {
  const uint64_t n = in.varint();
  if (n > limit) throw Error("a part of ", n, " bytes; at most ", limit, " are expected");
  std::string bytes(n, '\0');
  unpack(in, prefix, bytes.data(), n);
  return bytes;
}

std::string_view base_of(std::string_view base, const ModelParts& from, uint64_t index,
                         const TensorExtent& e) {
  if (index >= from.tensors.size()) throw Error("a tensor that the base does not have");
  const TensorExtent& b = from.tensors[index];
  if (b.element != e.element) throw Error("a tensor of another type in the base");
  return base.substr(b.offset, b.length);
}

void decode(Kind kind, std::string_view before, const TensorExtent& e, ByteReader& values,
            char* to) {
  const bool same_size = before.size() == e.length;
  switch (kind) {
    case Kind::kUnchanged:
      if (!same_size) throw Error("an unchanged tensor of another size");
      std::memcpy(to, before.data(), e.length);
      return;
    case Kind::kSparse:
      if (!same_size) throw Error("single changes to a tensor of another size");
      return unpack_sparse(values, before, e.element, to, e.length);
    case Kind::kDifference:
    case Kind::kNew:
      return unpack_planes(values, before, e.element, to, e.length);
  }
  throw Error("a tensor of an unknown kind");
}

}  // namespace

std::string delta_format::rebuild(std::string_view base, ByteReader in) {
  const ModelParts from = dissect(base);
  const uint64_t limit = largest_result(base.size());
  const std::string text = read_section(in, from.frame, limit);
  const Frame frame = read_frame(text, limit);
  constexpr uint64_t kLongestWay = 11;  // a kind and a number
  const std::string way_text = read_section(in, {}, kLongestWay * frame.tensors.size());
  ByteReader ways(way_text);
  std::string out(frame.file_bytes, '\0');
  uint64_t at = 0, skeleton = 0;  // how much of each is in its place
  const auto copy_skeleton = [&](uint64_t until) {
    std::memcpy(out.data() + at, frame.skeleton.data() + skeleton, until - at);
    skeleton += until - at;
  };
  for (const TensorExtent& e : frame.tensors) {
    copy_skeleton(e.offset);
    at = e.offset + e.length;
    const auto kind = static_cast<Kind>(ways.bytes(1)[0]);
    const std::string_view before =
        kind == Kind::kNew ? std::string_view() : base_of(base, from, ways.varint(), e);
    decode(kind, before, e, in, out.data() + e.offset);
  }
  copy_skeleton(out.size());
  if (!in.empty() || !ways.empty()) throw Error("there is more than it needs");
  return out;
}

const char* name_of(TensorChange::Kind kind) {
  switch (kind) {
    case Kind::kUnchanged:
      return "unchanged";
    case Kind::kSparse:
      return "sparse";
    case Kind::kDifference:
      return "difference";
    case Kind::kNew:
      return "new";
  }
  return "?";
}

Result<DeltaEnds> delta_ends(std::string_view delta) {
  if (delta.size() < kHeaderBytes || !delta.starts_with(kMagic)) {
    return Status(Code::kCorrupt, "no delta: its " + std::to_string(delta.size()) +
                                      " bytes do not begin as one does");
  }
  ByteReader in(delta.substr(kMagic.size()));
  const auto format = static_cast<uint8_t>(in.bytes(1)[0]);
  if (format != kFormat) {
    return Status(Code::kUnsupported, "a delta of format " + std::to_string(format) +
                                          "; this program reads " + std::to_string(kFormat));
  }
  const Digest base = read_digest(in);
  return DeltaEnds{base, read_digest(in)};
}

Result<std::string> apply_delta(std::string_view base, std::string_view delta) try {
  const Result<DeltaEnds> ends = delta_ends(delta);
  if (!ends.ok()) return ends.status();
  if (const Digest here = sha256(base); here != ends->base) {
    return Status(Code::kNotFound,
                  "a delta from " + short_hex(ends->base) + " does not fit on " + short_hex(here));
  }
  std::string result = delta_format::rebuild(base, ByteReader(delta.substr(kHeaderBytes)));
  if (const Digest made = sha256(result); made != ends->result) {
    return Status(Code::kCorrupt, "a delta to " + short_hex(ends->result) + " makes " +
                                      short_hex(made) + " instead");
  }
  return result;
} catch (const Error& e) {
  return Status(Code::kCorrupt, std::string("a damaged delta: ") + e.what());
}

}  // namespace ndtrain::ndp
