// The two inner loops of resize.cpp. A weight k of 22 fractional bits is held as k = high * 4096 +
// low so that both parts fit the 16-bit multiply-and-add-pairs that every x86-64 has; sums wrap
// modulo 2^32 as PIL's do.
#pragma once

#include <cstdint>

namespace ndtrain::ndp::resize_kernels {

inline constexpr int kFractionBits = 32 - 8 - 2;
inline constexpr int kLowBits = 12;

// Two neighbouring taps, the first in the low 16 bits.
struct WeightPair {
  uint32_t low = 0;
  uint32_t high = 0;
};

// Which inputs make one output: taps first … first + taps - 1.
struct Taps {
  int first = 0;
  int count = 0;

  int pairs() const { return (count + 1) / 2; }
  int end() const { return first + count; }
};

// n RGB pixels from the row `from`. Pixel x has weights from `weights + most_pairs * x`, an odd
// last tap filled up with weight zero. May read five bytes beyond the last pixel that counts and
// overwrite one byte beyond the n pixels at `to`.
void horizontal_row(const uint8_t* from, const Taps* taps, const WeightPair* weights,
                    int most_pairs, int n, uint8_t* to);

// to[i] = sum over r of weight r times rows[r][i], for n bytes; 2 * pairs rows.
void vertical_row(const uint8_t* const* rows, const WeightPair* weights, int pairs, int n,
                  uint8_t* to);

}  // namespace ndtrain::ndp::resize_kernels
