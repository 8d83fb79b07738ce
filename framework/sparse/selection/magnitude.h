// Floats by their magnitude, as integers that order as |x| does: NaN is above infinity, so no two
// compilers or instruction sets order them in different ways.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace ndtrain {

inline constexpr uint32_t kInfiniteMagnitude = 0x7f800000;

inline uint32_t magnitude(float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffff; }
inline float of_magnitude(uint32_t bits) { return std::bit_cast<float>(bits); }

// That of number `n` of the values, from the largest, which is number 0. 0 <= n < values.size().
uint32_t nth_magnitude(std::span<const float> values, int64_t n);

// The largest that is finite; 0 if none is.
uint32_t largest_finite_magnitude(std::span<const float> values);

}  // namespace ndtrain
