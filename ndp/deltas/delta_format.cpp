#include "ndp/deltas/delta_format.h"

#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "framework/core/error.h"

namespace ndtrain::ndp::delta_format {
namespace {

// Strong compression takes a second for every few megabytes.
constexpr size_t kStrongUntil = size_t{1} << 20;
constexpr int kStrong = 19, kFast = 6;
constexpr uint64_t kTensors = uint64_t{1} << 16;
constexpr int kLargestWindow = 27;  // that zstd reads without being told

size_t checked(size_t n) {
  if (ZSTD_isError(n) != 0) throw Error("zstd: ", ZSTD_getErrorName(n));
  return n;
}

int window_for(size_t bytes) {
  return std::clamp(static_cast<int>(std::bit_width(bytes)), 10, kLargestWindow);
}

std::string compress(std::string_view bytes, std::string_view prefix) {
  const std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> c(ZSTD_createCCtx(), ZSTD_freeCCtx);
  const int level = bytes.size() + prefix.size() <= kStrongUntil ? kStrong : kFast;
  checked(ZSTD_CCtx_setParameter(c.get(), ZSTD_c_compressionLevel, level));
  checked(
      ZSTD_CCtx_setParameter(c.get(), ZSTD_c_windowLog, window_for(bytes.size() + prefix.size())));
  if (!prefix.empty()) checked(ZSTD_CCtx_refPrefix(c.get(), prefix.data(), prefix.size()));
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  out.resize(checked(ZSTD_compress2(c.get(), out.data(), out.size(), bytes.data(), bytes.size())));
  return out;
}

}  // namespace

ModelParts dissect(std::string_view onnx) {
  ModelParts a;
  a.tensors = tensor_extents(onnx).or_throw();
  std::erase_if(a.tensors, [](const TensorExtent& e) { return e.length < kSmallestTensor; });
  if (a.tensors.size() > kTensors) throw Error(a.tensors.size(), " tensors are too many");
  put_varint(a.frame, a.tensors.size());
  std::string skeleton;
  uint64_t at = 0;
  for (const TensorExtent& e : a.tensors) {
    put_varint(a.frame, e.offset - at);
    put_varint(a.frame, e.length);
    put_varint(a.frame, e.element);
    skeleton += onnx.substr(at, e.offset - at);
    at = e.offset + e.length;
  }
  a.frame += skeleton.append(onnx.substr(at));
  return a;
}

Frame read_frame(std::string_view text, uint64_t limit) {
  ByteReader in(text);
  Frame f;
  const uint64_t count = in.varint();
  if (count > kTensors) throw Error(count, " tensors are too many");
  uint64_t gaps = 0, at = 0;
  const auto add = [limit](uint64_t& sum, uint64_t n) {
    if (n > limit || sum > limit - n) throw Error("a file of more than ", limit, " bytes");
    sum += n;
  };
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t gap = in.varint(), length = in.varint(), element = in.varint();
    add(gaps, gap);
    add(at, gap);
    const bool known = element == 1 || element == 2 || element == 4 || element == 8;
    if (length == 0 || !known || length % element != 0) throw Error("a tensor of an odd size");
    f.tensors.push_back(
        {.offset = at, .length = length, .element = static_cast<uint32_t>(element)});
    add(at, length);
  }
  f.skeleton = in.rest();
  if (f.skeleton.size() < gaps) throw Error("its skeleton ends early");
  add(at, f.skeleton.size() - gaps);
  f.file_bytes = at;
  return f;
}

// How many bytes there are and, unless they are zeros, the bytes.
std::string pack(std::string_view bytes, std::string_view prefix) {
  std::string out;
  if (bytes.find_first_not_of('\0') == bytes.npos) {
    put_varint(out, 0);
    return out;
  }
  const std::string packed = compress(bytes, prefix);
  const std::string_view best = packed.size() < bytes.size() ? std::string_view(packed) : bytes;
  put_varint(out, best.size());
  return out.append(best);
}

void unpack(ByteReader& from, std::string_view prefix, char* to, size_t bytes) {
  const std::string_view packed = from.bytes(from.varint());
  if (packed.empty()) {
    std::memset(to, 0, bytes);
  } else if (packed.size() >= bytes) {
    if (packed.size() > bytes) throw Error("more bytes than there is room for");
    std::memcpy(to, packed.data(), bytes);
  } else {
    const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> d(ZSTD_createDCtx(), ZSTD_freeDCtx);
    if (!prefix.empty()) checked(ZSTD_DCtx_refPrefix(d.get(), prefix.data(), prefix.size()));
    const size_t n = checked(ZSTD_decompressDCtx(d.get(), to, bytes, packed.data(), packed.size()));
    if (n != bytes) throw Error(n, " bytes where ", bytes, " should be");
  }
}

}  // namespace ndtrain::ndp::delta_format
