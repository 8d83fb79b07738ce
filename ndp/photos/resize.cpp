#include "ndp/photos/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "framework/core/error.h"
#include "ndp/photos/resize_kernels.h"

namespace ndtrain::ndp {
namespace {

using resize_kernels::Taps;
using resize_kernels::WeightPair;

double bilinear(double x) {
  x = std::abs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

// Keys' cubic convolution with a = -0.5.
double bicubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0.0;
}

// Which input samples make each output sample of one axis, and with what weights.
struct Axis {
  std::vector<Taps> taps;
  std::vector<WeightPair> weights;  // most_pairs for each output, zero beyond its taps
  int most_pairs = 0;

  int size() const { return static_cast<int>(taps.size()); }
  WeightPair* at(int i) { return weights.data() + static_cast<size_t>(most_pairs) * i; }
  const WeightPair* at(int i) const { return weights.data() + static_cast<size_t>(most_pairs) * i; }
};

void set_weight(WeightPair* pairs, int tap, double share) {
  const double scaled = share * (1 << resize_kernels::kFractionBits);
  const int k = static_cast<int>(share < 0 ? scaled - 0.5 : scaled + 0.5);
  const auto low = static_cast<uint32_t>(k & ((1 << resize_kernels::kLowBits) - 1));
  const auto high = static_cast<uint32_t>(k >> resize_kernels::kLowBits) & 0xffff;
  pairs[tap / 2].low |= low << 16 * (tap % 2);
  pairs[tap / 2].high |= high << 16 * (tap % 2);
}

// Outputs [begin, begin + n) of `in` samples resized to `out`. The order of the floating-point
// operations is PIL's, since the results are compared bit for bit.
Axis make_axis(int in, int out, Interpolation interpolation, int begin, int n) {
  const auto filter = interpolation == Interpolation::kBilinear ? bilinear : bicubic;
  const double scale = static_cast<double>(in) / out;
  const double filter_scale = std::max(scale, 1.0);
  const double support = (interpolation == Interpolation::kBilinear ? 1.0 : 2.0) * filter_scale;
  const double inverse = 1.0 / filter_scale;

  Axis axis;
  axis.taps.resize(n);
  const int most_taps = std::min(in, static_cast<int>(std::ceil(support)) * 2 + 1);
  axis.most_pairs = (most_taps + 1) / 2;
  axis.weights.resize(static_cast<size_t>(axis.most_pairs) * n);
  std::vector<double> shares(most_taps);
  for (int i = 0; i < n; ++i) {
    const double centre = (begin + i + 0.5) * scale;
    const int first = std::max(static_cast<int>(centre - support + 0.5), 0);
    const int taps = std::min(static_cast<int>(centre + support + 0.5), in) - first;
    double sum = 0;
    for (int t = 0; t < taps; ++t) {
      shares[t] = filter((t + first - centre + 0.5) * inverse);
      sum += shares[t];
    }
    axis.taps[i] = {.first = first, .count = taps};
    for (int t = 0; t < taps; ++t)
      set_weight(axis.at(i), t, sum != 0 ? shares[t] / sum : shares[t]);
  }
  return axis;
}

// Rows of the input resized horizontally, the latest few of them: a vertical filter slides down.
class NarrowRows {
 public:
  NarrowRows(const Image& from, const Axis& columns, int rows, int first)
      : from_(from), columns_(columns), rows_(rows), next_(first) {
    bytes_.resize(stride() * rows);
  }

  // Makes rows up to `end`; only the last `rows` stay.
  void advance(int end) {
    for (; next_ < end; ++next_) make(source(next_), slot(next_));
  }
  const uint8_t* row(int y) const { return bytes_.data() + stride() * (y % rows_); }

 private:
  size_t stride() const { return columns_.taps.size() * 3 + 1; }  // kernels overwrite one byte
  uint8_t* slot(int y) { return bytes_.data() + stride() * (y % rows_); }

  // Kernels read ahead, which at the very last row would be beyond the image.
  const uint8_t* source(int y) {
    if (y + 1 < from_.height) return from_.row(y);
    last_.assign(from_.stride() + 8, 0);
    std::memcpy(last_.data(), from_.row(y), from_.stride());
    return last_.data();
  }

  void make(const uint8_t* from, uint8_t* to) const {
    resize_kernels::horizontal_row(from, columns_.taps.data(), columns_.at(0), columns_.most_pairs,
                                   columns_.size(), to);
  }

  const Image& from_;
  const Axis& columns_;
  const int rows_;
  int next_;
  std::vector<uint8_t> bytes_, last_;
};

void check(const Image& from, int width, int height, const PixelBox& w) {
  if (from.width <= 0 || from.height <= 0 || width <= 0 || height <= 0) {
    throw Error("resize: ", from.width, "x", from.height, " to ", width, "x", height,
                ": sizes must be positive");
  }
  if (w.left < 0 || w.top < 0 || w.width <= 0 || w.height <= 0 || w.left > width - w.width ||
      w.top > height - w.height) {
    throw Error("resize: box ", w.width, "x", w.height, " at ", w.left, ",", w.top,
                " is not inside ", width, "x", height);
  }
}

}  // namespace

void resize(const Image& from, int width, int height, Interpolation interpolation,
            const PixelBox& box, uint8_t* out, size_t stride) {
  check(from, width, height, box);
  const size_t row_bytes = size_t{3} * box.width;
  if (width == from.width && height == from.height) {
    for (int y = 0; y < box.height; ++y) {
      std::memcpy(out + stride * y, from.row(box.top + y) + size_t{3} * box.left, row_bytes);
    }
    return;
  }
  const Axis columns = make_axis(from.width, width, interpolation, box.left, box.width);
  const Axis rows = make_axis(from.height, height, interpolation, box.top, box.height);
  int most_taps = 0;
  for (const Taps& t : rows.taps) most_taps = std::max(most_taps, t.count);
  NarrowRows narrow(from, columns, most_taps, rows.taps[0].first);
  std::vector<const uint8_t*> inputs(size_t{2} * rows.most_pairs);
  for (int y = 0; y < box.height; ++y) {
    const Taps& taps = rows.taps[y];
    narrow.advance(taps.end());
    // An odd number of taps is filled up with a row of weight zero.
    for (int t = 0; t < 2 * taps.pairs(); ++t) {
      inputs[t] = narrow.row(taps.first + std::min(t, taps.count - 1));
    }
    resize_kernels::vertical_row(inputs.data(), rows.at(y), taps.pairs(),
                                 static_cast<int>(row_bytes), out + stride * y);
  }
}

Image resize(const Image& from, int width, int height, Interpolation interpolation) {
  if (width <= 0 || height <= 0)
    throw Error("resize: to ", width, "x", height, ": must be positive");
  Image to(width, height);
  resize(from, width, height, interpolation, {.width = width, .height = height}, to.rgb.data(),
         to.stride());
  return to;
}

}  // namespace ndtrain::ndp
