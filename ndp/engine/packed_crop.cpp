#include "ndp/engine/packed_crop.h"

#include <zstd.h>

#include "framework/core/error.h"

namespace ndtrain::ndp {
namespace {

// The lowest level that codes literals by their frequency: differences have few repeats. Higher
// ones take longer for nothing.
constexpr int kLevel = 1;

uint8_t byte(int value) { return static_cast<uint8_t>(value); }

}  // namespace

std::vector<std::byte> pack_crop(const Image& crop) {
  std::vector<uint8_t> rest(crop.rgb);
  for (size_t i = 0; i + 2 < rest.size(); i += 3) {
    rest[i] = byte(rest[i] - rest[i + 1]);
    rest[i + 2] = byte(rest[i + 2] - rest[i + 1]);
  }
  for (int y = crop.height - 1; y > 0; --y) {
    uint8_t* row = rest.data() + crop.stride() * y;
    const uint8_t* above = row - crop.stride();
    for (size_t x = 0; x < crop.stride(); ++x) row[x] = byte(row[x] - above[x]);
  }
  std::vector<std::byte> packed(ZSTD_compressBound(rest.size()));
  const size_t n = ZSTD_compress(packed.data(), packed.size(), rest.data(), rest.size(), kLevel);
  if (ZSTD_isError(n) != 0) throw Error("zstd: ", ZSTD_getErrorName(n));
  packed.resize(n < rest.size() ? n : 0);
  return packed;
}

bool unpack_crop(std::span<const std::byte> packed, Image& crop) {
  uint8_t* rgb = crop.rgb.data();
  const size_t bytes = crop.rgb.size();
  const size_t n = ZSTD_decompress(rgb, bytes, packed.data(), packed.size());
  if (ZSTD_isError(n) != 0 || n != bytes) return false;
  for (int y = 1; y < crop.height; ++y) {
    uint8_t* row = crop.row(y);
    const uint8_t* above = crop.row(y - 1);
    for (size_t x = 0; x < crop.stride(); ++x) row[x] = byte(row[x] + above[x]);
  }
  for (size_t i = 0; i + 2 < bytes; i += 3) {
    rgb[i] = byte(rgb[i] + rgb[i + 1]);
    rgb[i + 2] = byte(rgb[i + 2] + rgb[i + 1]);
  }
  return true;
}

}  // namespace ndtrain::ndp
