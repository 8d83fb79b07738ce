#include "ndp/photos/tiff_samples.h"

#include <algorithm>
#include <cstring>

#include "ndp/photos/codec.h"

namespace ndtrain::ndp::codec {
namespace {

uint8_t divided_by_alpha(int colour, int alpha) {
  return static_cast<uint8_t>(alpha == 0 ? 0 : std::min(255, 255 * colour / alpha));
}

// libtiff hands out sixteen bits in the machine's order.
uint8_t high_byte(const uint8_t* sample) {
  uint16_t v = 0;
  std::memcpy(&v, sample, sizeof v);
  return static_cast<uint8_t>(v >> 8);
}

std::vector<uint8_t> grey_levels(int bits, bool min_is_white) {
  const int last = bits >= 8 ? 255 : (1 << bits) - 1;
  std::vector<uint8_t> colours;
  for (int i = 0; i <= last; ++i) {
    colours.insert(colours.end(), 3,
                   static_cast<uint8_t>((min_is_white ? last - i : i) * 255 / last));
  }
  return colours;
}

}  // namespace

TiffPixels::TiffPixels(const TiffLayout& layout, Image& image) : layout_(layout), image_(image) {
  if (layout.channels() == 4) inks_.resize(image.rgb.size() / 3 * 4);
  if (layout.channels() != 1) return;
  colours_ = layout.photometric == PHOTOMETRIC_PALETTE
                 ? layout.palette
                 : grey_levels(layout.bits, layout.photometric == PHOTOMETRIC_MINISWHITE);
}

size_t TiffPixels::row_bytes(int columns) const {
  const size_t bits = static_cast<size_t>(columns) * static_cast<size_t>(layout_.bits) *
                      static_cast<size_t>(layout_.separate ? 1 : layout_.samples);
  return (bits + 7) / 8;
}

void TiffPixels::put(const uint8_t* row, int plane, int x, int y, int columns) {
  layout_.channels() == 1 ? put_indexed(row, x, y, columns)
                          : put_channels(row, plane, x, y, columns);
}

void TiffPixels::put_indexed(const uint8_t* row, int x, int y, int columns) {
  uint8_t* to = image_.row(y) + size_t{3} * x;
  const int bits = layout_.bits, step = layout_.separate ? 1 : layout_.samples;
  for (int i = 0; i < columns; ++i, to += 3) {
    int value = 0;
    if (bits == 16) {
      value = high_byte(row + ptrdiff_t{2} * i * step);
    } else if (bits == 8) {
      value = row[ptrdiff_t{i} * step];
    } else {
      const int bit = i * bits;
      value = row[bit / 8] >> (8 - bits - bit % 8) & ((1 << bits) - 1);
    }
    std::memcpy(to, &colours_[size_t{3} * value], 3);
  }
}

void TiffPixels::put_channels(const uint8_t* row, int plane, int x, int y, int columns) {
  const int channels = layout_.channels(), bytes = layout_.bits / 8;
  const int step = layout_.separate ? 1 : layout_.samples;
  const size_t at = static_cast<size_t>(y) * static_cast<size_t>(image_.width) + x;
  uint8_t* to = (channels == 4 ? inks_.data() : image_.rgb.data()) + at * channels;
  const auto sample = [&](const uint8_t* p) { return bytes == 2 ? high_byte(p) : *p; };
  for (int i = 0; i < columns; ++i, to += channels, row += ptrdiff_t{step} * bytes) {
    if (layout_.separate) {
      to[plane] = sample(row);
      continue;
    }
    for (int c = 0; c < channels; ++c) to[c] = sample(row + c * bytes);
    if (!layout_.associated) continue;
    const int alpha = sample(row + 3 * bytes);
    for (int c = 0; c < 3; ++c) to[c] = divided_by_alpha(to[c], alpha);
  }
}

void TiffPixels::finish() {
  if (!inks_.empty()) rgb_from_cmyk(inks_, false, image_.rgb.data());
}

}  // namespace ndtrain::ndp::codec
