// See byte_map_loops.h and block_lanes.inc. Where channels are no whole vectors, the last one
// begins so early that it ends with them.
#include "backends/onednn/byte_map_loops.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "backends/onednn/block_lanes.inc"

namespace ndtrain::onednn::NDT_ISA {
namespace {

typedef uint8_t Bytes __attribute__((vector_size(kBlock), aligned(1), may_alias));

// gcc 12 makes a dozen instructions of a conversion that is one.
#if defined(__AVX512F__)
Bits widened(Bytes b) {
  return reinterpret_cast<Bits>(_mm512_cvtepu8_epi32(reinterpret_cast<__m128i>(b)));
}
Bytes narrowed(Bits b) {
  return reinterpret_cast<Bytes>(_mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(b)));
}
#else
Bits widened(Bytes b) { return __builtin_convertvector(b, Bits); }
Bytes narrowed(Bits b) { return __builtin_convertvector(b, Bytes); }
#endif

Bits counted(const uint8_t* x, uint8_t flip) {
  return widened(*reinterpret_cast<const Bytes*>(x) ^ flip);
}

// Numbers that are held within some so far below 2^22, half to even.
Bits nearest(Vec v, float low, float high) {
#if defined(__AVX512F__)
  const __m512 held = _mm512_min_ps(_mm512_max_ps(v, _mm512_set1_ps(low)), _mm512_set1_ps(high));
  return reinterpret_cast<Bits>(_mm512_cvtps_epi32(held));
#else
  const Vec lows = Vec{} + low, highs = Vec{} + high, whole = Vec{} + 12582912.0F;
  Vec held = v > lows ? v : lows;
  held = held < highs ? held : highs;
  return __builtin_convertvector(held + whole - whole, Bits);
#endif
}

int32_t nearest(float v, float low, float high) {
  constexpr float kWhole = 12582912;
  float held = v > low ? v : low;
  held = held < high ? held : high;
  return static_cast<int32_t>(held + kWhole - kWhole);
}

// Limits are whole numbers, so that they may be held before what is rounded.
template <typename V>
auto in_steps(V v, CountedBytes to) {
  return nearest(v, static_cast<float>(-to.zero), static_cast<float>(255 - to.zero)) + to.zero;
}

void store(uint8_t* y, Vec v, CountedBytes to) {
  *reinterpret_cast<Bytes*>(y) = narrowed(in_steps(v, to)) ^ to.flip;
}

void store(uint8_t* y, float v, CountedBytes to) {
  *y = static_cast<uint8_t>(in_steps(v, to)) ^ to.flip;
}

// Channels of the window at one place of the output.
struct Cells {
  const uint8_t* first;
  int64_t high, wide, row, pixel;  // bytes from row to row, from pixel to pixel
  int32_t zeros;                   // the zero point of all of them
  float factor;
};

template <int kVectors>
void average(const Cells& w, uint8_t flip, uint8_t* y, CountedBytes to) {
  Bits sums[kVectors] = {};
  for (int64_t r = 0; r < w.high; ++r) {
    for (int64_t c = 0; c < w.wide; ++c) {
      const uint8_t* x = w.first + r * w.row + c * w.pixel;
#pragma GCC unroll 4  // so that sums are in registers
      for (int v = 0; v < kVectors; ++v) sums[v] += counted(x + int64_t{v} * kBlock, flip);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    store(y + int64_t{v} * kBlock, __builtin_convertvector(sums[v] - w.zeros, Vec) * w.factor, to);
  }
}

void average_one(const Cells& w, uint8_t flip, uint8_t* y, CountedBytes to) {
  int32_t sum = -w.zeros;
  for (int64_t r = 0; r < w.high; ++r) {
    for (int64_t c = 0; c < w.wide; ++c) sum += w.first[r * w.row + c * w.pixel] ^ flip;
  }
  store(y, static_cast<float>(sum) * w.factor, to);
}

void average_pixel(Cells w, uint8_t flip, int64_t channels, uint8_t* y, CountedBytes to) {
  constexpr int kMany = 4;
  const uint8_t* const x = w.first;
  if (channels < kBlock) {
    for (int64_t c = 0; c < channels; ++c) {
      w.first = x + c;
      average_one(w, flip, y + c, to);
    }
    return;
  }
  int64_t c = 0;
  for (constexpr int64_t kTaken = int64_t{kMany} * kBlock; c + kTaken <= channels; c += kTaken) {
    w.first = x + c;
    average<kMany>(w, flip, y + c, to);
  }
  for (; c < channels; c += kBlock) {
    const int64_t at = c + kBlock <= channels ? c : channels - kBlock;
    w.first = x + at;
    average<1>(w, flip, y + at, to);
  }
}

void average_row(const PoolWindow& w, int64_t row, const uint8_t* x, CountedBytes from,
                 int64_t channels, float factor, uint8_t* y, CountedBytes to) {
  const PoolSpan rows = window_at(w.rows, row);
  for (int64_t c = 0; c < w.columns.out; ++c, y += channels) {
    const PoolSpan columns = window_at(w.columns, c);
    const int64_t high = rows.last - rows.first, wide = columns.last - columns.first;
    const bool padding = w.kind == PoolWindow::Kind::kAverageWithPadding;
    const int64_t counted = padding ? w.rows.kernel * w.columns.kernel : high * wide;
    const Cells cells{
        .first = x + (rows.first * w.columns.in + columns.first) * channels,
        .high = high,
        .wide = wide,
        .row = w.columns.in * channels,
        .pixel = channels,
        .zeros = static_cast<int32_t>(high * wide) * from.zero,
        .factor = factor / static_cast<float>(counted),
    };
    average_pixel(cells, from.flip, channels, y, to);
  }
}

void scale_pixels(const uint8_t* x, CountedBytes from, const float* by, float factor,
                  int64_t pixels, int64_t channels, uint8_t* y, CountedBytes to) {
  for (int64_t p = 0; p < pixels; ++p, x += channels, y += channels) {
    if (channels < kBlock) {
      for (int64_t c = 0; c < channels; ++c) {
        const int32_t v = (x[c] ^ from.flip) - from.zero;
        store(y + c, static_cast<float>(v) * by[c] * factor, to);
      }
      continue;
    }
    for (int64_t c = 0; c < channels; c += kBlock) {
      const int64_t at = c + kBlock <= channels ? c : channels - kBlock;
      const Vec v = __builtin_convertvector(counted(x + at, from.flip) - from.zero, Vec);
      const Vec factors = F32::load(reinterpret_cast<const char*>(by + at));
      store(y + at, v * factors * factor, to);
    }
  }
}

// Of kVectors times a vector of channels, whose factors and offsets stay in registers.
template <int kVectors>
void shift(const uint8_t* x, CountedBytes from, const float* factor, const float* offset,
           int64_t pixels, int64_t channels, uint8_t* y, int64_t y_pixel, CountedBytes to) {
  Vec factors[kVectors], offsets[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    factors[v] = F32::load(reinterpret_cast<const char*>(factor + int64_t{v} * kBlock));
    offsets[v] = F32::load(reinterpret_cast<const char*>(offset + int64_t{v} * kBlock));
  }
  for (int64_t p = 0; p < pixels; ++p, x += channels, y += y_pixel) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = int64_t{v} * kBlock;
      const Vec n = __builtin_convertvector(counted(x + at, from.flip) - from.zero, Vec);
      store(y + at, n * factors[v] + offsets[v], to);
    }
  }
}

void shift_one(const uint8_t* x, CountedBytes from, float factor, float offset, int64_t pixels,
               int64_t channels, uint8_t* y, int64_t y_pixel, CountedBytes to) {
  for (int64_t p = 0; p < pixels; ++p) {
    const int32_t n = (x[p * channels] ^ from.flip) - from.zero;
    store(y + p * y_pixel, static_cast<float>(n) * factor + offset, to);
  }
}

void shift_pixels(const uint8_t* x, CountedBytes from, const float* factor, const float* offset,
                  int64_t pixels, int64_t channels, uint8_t* y, int64_t y_pixel, CountedBytes to) {
  if (channels < kBlock) {
    for (int64_t c = 0; c < channels; ++c) {
      shift_one(x + c, from, factor[c], offset[c], pixels, channels, y + c, y_pixel, to);
    }
    return;
  }
  constexpr int kMany = 2;
  int64_t c = 0;
  for (constexpr int64_t kTaken = int64_t{kMany} * kBlock; c + kTaken <= channels; c += kTaken) {
    shift<kMany>(x + c, from, factor + c, offset + c, pixels, channels, y + c, y_pixel, to);
  }
  for (; c < channels; c += kBlock) {
    const int64_t at = c + kBlock <= channels ? c : channels - kBlock;
    shift<1>(x + at, from, factor + at, offset + at, pixels, channels, y + at, y_pixel, to);
  }
}

}  // namespace

ByteMapLoops byte_map_loops() { return {average_row, scale_pixels, shift_pixels}; }

}  // namespace ndtrain::onednn::NDT_ISA
