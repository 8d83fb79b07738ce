// Floats by their magnitude, as integers that order as |x| does: NaN is above infinity, so no two
// compilers or instruction sets order them in different ways.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "framework/sparse/selection/scan.h"

namespace ndtrain {

inline constexpr uint32_t kInfiniteMagnitude = 0x7f800000;

inline uint32_t magnitude(float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffff; }
inline float of_magnitude(uint32_t bits) { return std::bit_cast<float>(bits); }

// Appends indices of [begin, end) whose values are of at least this magnitude, or NaN, rising,
// until there are `most` in all; returns behind the last that was looked at. `threshold` is not
// NaN.
int64_t append_at_least(std::span<const float> values, int64_t begin, int64_t end, float threshold,
                        int64_t most, InstructionSet set, std::vector<uint32_t>& indices);
// Of all values, and all of them.
std::vector<uint32_t> indices_at_least(std::span<const float> values, uint32_t least,
                                       InstructionSet set);

// That of number `n` of the values, from the largest, which is number 0. 0 <= n < values.size().
// Any instruction set gives the same. A sample says below which all others are left out (Floyd and
// Rivest, "Expected time bounds for selection", Communications of the ACM 18, 1975).
uint32_t nth_magnitude(std::span<const float> values, int64_t n, InstructionSet set);

// The largest that is finite; 0 if none is.
uint32_t largest_finite_magnitude(std::span<const float> values);

}  // namespace ndtrain
