#include "ndp/photos/colour_changes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace ndtrain::ndp {
namespace {

using Table = std::array<uint8_t, 256>;
constexpr int kChannels = 3;

uint8_t clipped(double x) { return static_cast<uint8_t>(std::clamp(x, 0.0, 255.0)); }

// PIL's conversion to "L".
uint8_t grey(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

// PIL's Image.blend, in its precision.
uint8_t blended(uint8_t from, uint8_t to, float part) {
  const float value = static_cast<float>(from) + part * static_cast<float>(to - from);
  return static_cast<uint8_t>(std::clamp(value, 0.0F, 255.0F));
}

// Between what `degenerate(pixel, channel)` says and the image.
template <typename F>
Image enhanced(const Image& image, double factor, const F& degenerate) {
  Image out(image.width, image.height);
  const auto part = static_cast<float>(factor);
  for (size_t i = 0; i < image.rgb.size(); ++i) {
    const size_t pixel = i - i % kChannels;
    out.rgb[i] = blended(degenerate(pixel, i), image.rgb[i], part);
  }
  return out;
}

// By a table for each channel.
Image looked_up(const Image& image, const std::array<Table, kChannels>& tables) {
  Image out(image.width, image.height);
  for (size_t i = 0; i < image.rgb.size(); ++i) {
    out.rgb[i] = tables[i % kChannels][image.rgb[i]];
  }
  return out;
}

template <typename F>
Image mapped(const Image& image, const F& value_of) {
  Table table{};
  for (int i = 0; i < 256; ++i) table[static_cast<size_t>(i)] = value_of(i);
  return looked_up(image, {table, table, table});
}

std::array<std::array<int64_t, 256>, kChannels> histograms(const Image& image) {
  std::array<std::array<int64_t, 256>, kChannels> counts{};
  for (size_t i = 0; i < image.rgb.size(); ++i) ++counts[i % kChannels][image.rgb[i]];
  return counts;
}

Table identity() {
  Table table{};
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<uint8_t>(i);
  return table;
}

Table stretched(const std::array<int64_t, 256>& counts) {
  size_t least = 0, most = 255;
  while (least < 255 && counts[least] == 0) ++least;
  while (most > 0 && counts[most] == 0) --most;
  Table table = identity();
  if (most <= least) return table;
  const double scale = 255.0 / static_cast<double>(most - least);
  const double offset = -static_cast<double>(least) * scale;
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = clipped(static_cast<double>(i) * scale + offset);
  }
  return table;
}

Table flattened(const std::array<int64_t, 256>& counts) {
  int64_t all = 0, last = 0, levels = 0;
  for (const int64_t n : counts) {
    all += n;
    levels += n > 0;
    if (n > 0) last = n;
  }
  Table table = identity();
  const int64_t step = (all - last) / 255;
  if (levels <= 1 || step == 0) return table;
  int64_t below = step / 2;
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<uint8_t>(std::min<int64_t>(below / step, 255));
    below += counts[i];
  }
  return table;
}

struct Hsv {
  uint8_t hue = 0, saturation = 0, value = 0;
};

// As PIL computes it: in floats, cut to bytes.
Hsv hsv_of(const uint8_t* rgb) {
  const uint8_t r = rgb[0], g = rgb[1], b = rgb[2];
  const uint8_t most = std::max({r, g, b}), least = std::min({r, g, b});
  if (most == least) return {.value = most};
  const auto range = static_cast<float>(most - least);
  const float to_r = static_cast<float>(most - r) / range;
  const float to_g = static_cast<float>(most - g) / range;
  const float to_b = static_cast<float>(most - b) / range;
  float hue = 0;
  if (r == most) {
    hue = to_b - to_g;
  } else if (g == most) {
    hue = static_cast<float>(2.0 + to_r - to_b);
  } else {
    hue = static_cast<float>(4.0 + to_g - to_r);
  }
  hue = static_cast<float>(std::fmod(hue / 6.0 + 1.0, 1.0));
  return {.hue = clipped(hue * 255.0),
          .saturation = clipped(range / static_cast<float>(most) * 255.0),
          .value = most};
}

void to_rgb(const Hsv& c, uint8_t* rgb) {
  if (c.saturation == 0) {
    std::fill_n(rgb, kChannels, c.value);
    return;
  }
  const double sixth = static_cast<float>(c.hue) * 6.0 / 255.0;
  const int i = static_cast<int>(std::floor(sixth));
  const auto f = static_cast<float>(sixth - i);
  const auto s = static_cast<float>(static_cast<float>(c.saturation) / 255.0);
  const auto value = static_cast<float>(c.value);
  const uint8_t v = c.value, p = clipped(std::round(value * (1.0 - s)));
  const uint8_t q = clipped(std::round(value * (1.0 - s * f)));
  const uint8_t t = clipped(std::round(value * (1.0 - s * (1.0 - f))));
  const uint8_t sectors[6][kChannels] = {{v, t, p}, {q, v, p}, {p, v, t},
                                         {p, q, v}, {t, p, v}, {v, p, q}};
  std::copy_n(sectors[i % 6], kChannels, rgb);
}

// PIL's filter SMOOTH, which leaves the edge as it is.
Image smoothed(const Image& image) {
  Image out = image;
  for (int y = 1; y + 1 < image.height; ++y) {
    for (size_t x = kChannels; x + kChannels < image.stride(); ++x) {
      float sum = 0.5F;
      for (const int dy : {1, 0, -1}) {
        const uint8_t* row = image.row(y + dy) + x;
        const float centre = dy == 0 ? 5.0F / 13 : 1.0F / 13;
        sum += static_cast<float>(row[-kChannels]) * (1.0F / 13) +
               static_cast<float>(row[0]) * centre +
               static_cast<float>(row[kChannels]) * (1.0F / 13);
      }
      out.row(y)[x] = clipped(sum);
    }
  }
  return out;
}

// PIL's fixed point, in which it walks over nearest pixels.
int64_t fixed(double x) { return static_cast<int64_t>(std::floor(x * 65536.0 + 0.5)); }

double rounded_15(double x) { return std::nearbyint(x * 1e15) / 1e15; }

}  // namespace

Image with_brightness(const Image& image, double factor) {
  return enhanced(image, factor, [](size_t, size_t) { return uint8_t{0}; });
}

Image with_contrast(const Image& image, double factor) {
  int64_t sum = 0;
  for (size_t pixel = 0; pixel < image.rgb.size(); pixel += kChannels) {
    sum += grey(&image.rgb[pixel]);
  }
  const double pixels = std::max(static_cast<double>(image.rgb.size()) / kChannels, 1.0);
  const auto mean = static_cast<uint8_t>(std::lround(static_cast<double>(sum) / pixels));
  return enhanced(image, factor, [mean](size_t, size_t) { return mean; });
}

Image with_saturation(const Image& image, double factor) {
  return enhanced(image, factor, [&](size_t pixel, size_t) { return grey(&image.rgb[pixel]); });
}

Image with_sharpness(const Image& image, double factor) {
  const Image smooth = smoothed(image);
  return enhanced(image, factor, [&](size_t, size_t i) { return smooth.rgb[i]; });
}

Image with_hue(const Image& image, double part) {
  Image out(image.width, image.height);
  const auto turn = static_cast<uint8_t>(static_cast<int>(part * 255));
  for (size_t pixel = 0; pixel < image.rgb.size(); pixel += kChannels) {
    Hsv colour = hsv_of(&image.rgb[pixel]);
    colour.hue = static_cast<uint8_t>(colour.hue + turn);
    to_rgb(colour, &out.rgb[pixel]);
  }
  return out;
}

Image posterized(const Image& image, int bits) {
  const int mask = 0xFF & ~((1 << (8 - bits)) - 1);
  return mapped(image, [mask](int i) { return static_cast<uint8_t>(i & mask); });
}

Image solarized(const Image& image, double threshold) {
  return mapped(image,
                [threshold](int i) { return static_cast<uint8_t>(i < threshold ? i : 255 - i); });
}

Image autocontrasted(const Image& image) {
  const auto counts = histograms(image);
  return looked_up(image, {stretched(counts[0]), stretched(counts[1]), stretched(counts[2])});
}

Image equalized(const Image& image) {
  const auto counts = histograms(image);
  return looked_up(image, {flattened(counts[0]), flattened(counts[1]), flattened(counts[2])});
}

Image transformed(const Image& image, const AffineMap& from) {
  Image out(image.width, image.height);
  int64_t row_x = fixed(from.c + from.a * 0.5 + from.b * 0.5);
  int64_t row_y = fixed(from.f + from.d * 0.5 + from.e * 0.5);
  for (int y = 0; y < image.height; ++y) {
    int64_t at_x = row_x, at_y = row_y;
    for (int x = 0; x < image.width; ++x) {
      const int64_t in_x = at_x >> 16, in_y = at_y >> 16;
      if (in_x >= 0 && in_x < image.width && in_y >= 0 && in_y < image.height) {
        std::copy_n(image.row(static_cast<int>(in_y)) + in_x * kChannels, kChannels,
                    out.row(y) + static_cast<ptrdiff_t>(x) * kChannels);
      }
      at_x += fixed(from.a);
      at_y += fixed(from.d);
    }
    row_x += fixed(from.b);
    row_y += fixed(from.e);
  }
  return out;
}

Image rotated(const Image& image, double degrees) {
  const double angle = -degrees * std::numbers::pi / 180;
  AffineMap map{.a = rounded_15(std::cos(angle)),
                .b = rounded_15(std::sin(angle)),
                .c = 0,
                .d = rounded_15(-std::sin(angle)),
                .e = rounded_15(std::cos(angle)),
                .f = 0};
  const double x = image.width / 2.0, y = image.height / 2.0;
  map.c = map.a * -x + map.b * -y + x;
  map.f = map.d * -x + map.e * -y + y;
  return transformed(image, map);
}

}  // namespace ndtrain::ndp
