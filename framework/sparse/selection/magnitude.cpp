#include "framework/sparse/selection/magnitude.h"

#include <algorithm>
#include <array>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

// The bin, from the last one down, that has number `n`; `n` becomes its number within the bin.
uint32_t bin_with(std::span<const int64_t> bins, int64_t& n) {
  size_t bin = bins.size() - 1;
  for (; n >= bins[bin]; --bin) n -= bins[bin];
  return static_cast<uint32_t>(bin);
}

}  // namespace

uint32_t nth_magnitude(std::span<const float> values, int64_t n) {
  if (n < 0 || n >= static_cast<int64_t>(values.size())) {
    throw Error("nth_magnitude: there is no number ", n, " of ", values.size(), " values");
  }
  // By a histogram of the first 11 bits, then, of those in its bin, of the next 10, and the last.
  uint32_t prefix = 0;
  int rest = 31;  // bits that are not known yet
  for (const int width : {11, 10, 10}) {
    std::array<int64_t, 1 << 11> bins = {};
    const int shift = rest - width;
    const uint32_t mask = (uint32_t{1} << width) - 1;
    for (const float x : values) {
      const uint32_t bits = magnitude(x);
      if (bits >> rest == prefix) ++bins[bits >> shift & mask];
    }
    prefix = prefix << width | bin_with(bins, n);
    rest = shift;
  }
  return prefix;
}

uint32_t largest_finite_magnitude(std::span<const float> values) {
  uint32_t largest = 0;
  for (const float x : values) {
    const uint32_t bits = magnitude(x);
    largest = std::max(largest, bits < kInfiniteMagnitude ? bits : 0);
  }
  return largest;
}

}  // namespace ndtrain
