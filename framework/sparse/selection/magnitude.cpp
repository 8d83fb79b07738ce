#include "framework/sparse/selection/magnitude.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

// The bin, from the last one down, that has number `n`; `n` becomes its number within the bin.
uint32_t bin_with(std::span<const int64_t> bins, int64_t& n) {
  size_t bin = bins.size() - 1;
  for (; n >= bins[bin]; --bin) n -= bins[bin];
  return static_cast<uint32_t>(bin);
}

// By a histogram of the first 11 bits, then, of those in its bin, of the next 10, and the last.
uint32_t by_histograms(std::span<const float> values, int64_t n) {
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

// A magnitude that number `n` of many values is most likely not below, and not many others are; 0:
// they are few, or it would leave too many. Numbers of a sample lie about as those of all do.
uint32_t likely_below(std::span<const float> values, int64_t n) {
  constexpr size_t kSample = 1 << 12;
  if (values.size() < 16 * kSample) return 0;
  const size_t stride = values.size() / kSample;
  std::array<float, kSample> sample;
  for (size_t i = 0; i < kSample; ++i) sample[i] = values[i * stride];
  const double expected =
      static_cast<double>(n) / static_cast<double>(values.size()) * double{kSample};
  const auto number = static_cast<int64_t>(expected + 4 * std::sqrt(expected) + 8);
  if (number > int64_t{kSample} / 8) return 0;
  const uint32_t least = by_histograms(sample, number);
  return least > kInfiniteMagnitude ? 0 : least;
}

}  // namespace

int64_t append_at_least(std::span<const float> values, int64_t begin, int64_t end, float threshold,
                        int64_t most, InstructionSet set, std::vector<uint32_t>& indices) {
  constexpr int64_t kAtOnce = 1 << 13;  // values that are looked at once, which stay in L1
  std::array<uint16_t, kAtOnce / kBlockElements> masks;
  for (int64_t at = begin; at < end; at += kAtOnce) {
    const int64_t length = std::min(kAtOnce, end - at);
    const int64_t blocks = (length + kBlockElements - 1) / kBlockElements;
    mask_at_least(values.subspan(at, length), threshold, std::span(masks).first(blocks), set);
    for (int64_t b = 0; b < blocks; ++b) {
      for (unsigned mask = masks[b]; mask != 0; mask &= mask - 1) {
        const int64_t i = at + b * kBlockElements + std::countr_zero(mask);
        indices.push_back(static_cast<uint32_t>(i));
        if (std::ssize(indices) == most) return i + 1;
      }
    }
  }
  return end;
}

std::vector<uint32_t> indices_at_least(std::span<const float> values, uint32_t least,
                                       InstructionSet set) {
  std::vector<uint32_t> indices;
  append_at_least(values, 0, std::ssize(values), of_magnitude(least), std::ssize(values), set,
                  indices);
  return indices;
}

uint32_t nth_magnitude(std::span<const float> values, int64_t n, InstructionSet set) {
  if (n < 0 || n >= static_cast<int64_t>(values.size())) {
    throw Error("nth_magnitude: there is no number ", n, " of ", values.size(), " values");
  }
  const uint32_t least = likely_below(values, n);
  if (least == 0) return by_histograms(values, n);
  const std::vector<uint32_t> indices = indices_at_least(values, least, set);
  if (n >= std::ssize(indices)) return by_histograms(values, n);
  std::vector<float> larger(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) larger[i] = values[indices[i]];
  return by_histograms(larger, n);
}

uint32_t largest_finite_magnitude(std::span<const float> values) {
  constexpr size_t kBlock = 1024;  // of so many, known here, vectors are made
  // Signed, as the oldest vector instructions compare.
  const auto larger = [](int32_t largest, float x) {
    const auto bits = static_cast<int32_t>(magnitude(x));
    return std::max(largest, bits < static_cast<int32_t>(kInfiniteMagnitude) ? bits : 0);
  };
  int32_t largest = 0;
  for (; values.size() >= kBlock; values = values.subspan(kBlock)) {
    for (size_t i = 0; i < kBlock; ++i) largest = larger(largest, values[i]);
  }
  for (const float x : values) largest = larger(largest, x);
  return static_cast<uint32_t>(largest);
}

}  // namespace ndtrain
