#include "ndp/photos/exif.h"

#include <cstring>
#include <utility>

namespace ndtrain::ndp {
namespace {

class TiffReader {
 public:
  TiffReader(std::span<const uint8_t> bytes, bool little) : bytes_(bytes), little_(little) {}

  bool has(uint64_t offset, uint64_t n) const {
    return offset <= bytes_.size() && n <= bytes_.size() - offset;
  }
  uint32_t u16(uint64_t at) const {
    return little_ ? bytes_[at] | bytes_[at + 1] << 8 : bytes_[at] << 8 | bytes_[at + 1];
  }
  uint32_t u32(uint64_t at) const {
    return little_ ? u16(at) | u16(at + 2) << 16 : u16(at) << 16 | u16(at + 2);
  }

 private:
  std::span<const uint8_t> bytes_;
  bool little_;
};

constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kShort = 3, kLong = 4;
constexpr uint64_t kEntry = 12;

}  // namespace

int exif_orientation(std::span<const uint8_t> tiff) {
  if (tiff.size() < 8) return 1;
  const bool little = std::memcmp(tiff.data(), "II*\0", 4) == 0;
  if (!little && std::memcmp(tiff.data(), "MM\0*", 4) != 0) return 1;
  const TiffReader r(tiff, little);
  const uint64_t ifd = r.u32(4);
  if (!r.has(ifd, 2)) return 1;
  const uint32_t entries = r.u16(ifd);
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t at = ifd + 2 + i * kEntry;
    if (!r.has(at, kEntry)) return 1;
    if (r.u16(at) != kOrientationTag) continue;
    const uint32_t type = r.u16(at + 2);
    if ((type != kShort && type != kLong) || r.u32(at + 4) != 1) return 1;
    const uint32_t value = type == kShort ? r.u16(at + 8) : r.u32(at + 8);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

std::span<const uint8_t> without_exif_mark(std::span<const uint8_t> block) {
  constexpr size_t kMark = 6;
  const bool marked = block.size() >= kMark && std::memcmp(block.data(), "Exif\0\0", kMark) == 0;
  return marked ? block.subspan(kMark) : block;
}

Image upright(Image image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  const bool transposed = orientation >= 5;
  const int w = image.width, h = image.height;
  Image to(transposed ? h : w, transposed ? w : h);
  // Which stored edge the upright left and top edges run from.
  const bool flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const ptrdiff_t along_x = flip_x ? -3 : 3;
  const ptrdiff_t along_y = static_cast<ptrdiff_t>(image.stride()) * (flip_y ? -1 : 1);
  const uint8_t* corner = image.row(flip_y ? h - 1 : 0) + 3 * (flip_x ? w - 1 : 0);
  const ptrdiff_t step = transposed ? along_y : along_x;
  const ptrdiff_t next_row = transposed ? along_x : along_y;
  for (int y = 0; y < to.height; ++y) {
    const uint8_t* from = corner + next_row * y;
    uint8_t* out = to.row(y);
    for (int x = 0; x < to.width; ++x, from += step, out += 3) {
      out[0] = from[0];
      out[1] = from[1];
      out[2] = from[2];
    }
  }
  return to;
}

}  // namespace ndtrain::ndp
