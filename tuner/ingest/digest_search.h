// Where a digest is among others that rise.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "framework/core/hash.h"

namespace ndtrain::tuner {

// `at(i)` is the i-th of `size`. Digests lie about evenly, so that one is near where its first
// bytes say; from there in steps that double, which costs little more than a search of all where
// they do not.
template <typename At>
std::optional<size_t> find_digest(size_t size, const At& at, const Digest& wanted) {
  const double share = (wanted[0] * 65536.0 + wanted[1] * 256.0 + wanted[2]) / (1 << 24);
  size_t low = static_cast<size_t>(share * static_cast<double>(size)), high = low;
  for (size_t step = 1; low > 0 && !(at(low) < wanted); step *= 2) low -= std::min(step, low);
  for (size_t step = 1; high < size && at(high) < wanted; step *= 2) {
    high = std::min(size, high + step);
  }
  for (high = std::min(size, high + 1); low < high;) {
    const size_t middle = low + (high - low) / 2;
    at(middle) < wanted ? low = middle + 1 : high = middle;
  }
  if (low == size || at(low) != wanted) return std::nullopt;
  return low;
}

}  // namespace ndtrain::tuner
