// Numbers that ranks add up, and what they are compared by.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

namespace ndtrain::testing {

// Numbers of many magnitudes, of which each order has another sum; the same again and again.
inline void fill(std::span<float> values, uint64_t seed) {
  std::minstd_rand numbers(static_cast<uint32_t>(seed + 1));
  std::array<float, 997> some;
  for (float& x : some) {
    const auto drawn = static_cast<uint32_t>(numbers());
    x = static_cast<float>(static_cast<int>(drawn >> 15)) * static_cast<float>(1U << (drawn % 20));
    if (drawn % 3 == 0) x = -x;
  }
  for (size_t at = 0; at < values.size(); at += some.size()) {
    std::copy_n(some.begin(), std::min(some.size(), values.size() - at), &values[at]);
  }
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace ndtrain::testing
