// The sum of the products of two rows, as sixteen sums side by side that stay in registers: the
// same bits every time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "framework/core/dtype.h"

namespace ndtrain::ndp {

using FourFloats [[gnu::vector_size(16)]] = float;
using EightHalfWords [[gnu::vector_size(16)]] = uint16_t;

struct SixteenFloats {
  FourFloats a, b, c, d;
};

inline FourFloats four_of(const float* from) {
  FourFloats four;
  std::memcpy(&four, from, sizeof four);
  return four;
}

inline SixteenFloats sixteen_of(const float* from) {
  return {four_of(from), four_of(from + 4), four_of(from + 8), four_of(from + 12)};
}

// A bfloat16 is the upper half of a float.
inline SixteenFloats sixteen_of(const uint16_t* bf16) {
  static_assert(std::endian::native == std::endian::little);
  EightHalfWords low, high;
  std::memcpy(&low, bf16, sizeof low);
  std::memcpy(&high, bf16 + 8, sizeof high);
  const EightHalfWords zero{};
  return {
      std::bit_cast<FourFloats>(__builtin_shufflevector(zero, low, 0, 8, 1, 9, 2, 10, 3, 11)),
      std::bit_cast<FourFloats>(__builtin_shufflevector(zero, low, 4, 12, 5, 13, 6, 14, 7, 15)),
      std::bit_cast<FourFloats>(__builtin_shufflevector(zero, high, 0, 8, 1, 9, 2, 10, 3, 11)),
      std::bit_cast<FourFloats>(__builtin_shufflevector(zero, high, 4, 12, 5, 13, 6, 14, 7, 15))};
}

inline float one_of(float x) { return x; }
inline float one_of(uint16_t bf16) { return f32_from_bf16(bf16); }

// `a`: floats, or bfloat16 as their bits.
template <typename T>
float product_in_lanes(const T* a, const float* b, size_t n) {
  SixteenFloats sums{};
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const SixteenFloats x = sixteen_of(a + i), y = sixteen_of(b + i);
    sums.a += x.a * y.a;
    sums.b += x.b * y.b;
    sums.c += x.c * y.c;
    sums.d += x.d * y.d;
  }
  float sum = 0;
  for (; i < n; ++i) sum += one_of(a[i]) * b[i];
  for (const FourFloats& s : {sums.a, sums.b, sums.c, sums.d}) {
    for (int lane = 0; lane < 4; ++lane) sum += s[lane];
  }
  return sum;
}

}  // namespace ndtrain::ndp
