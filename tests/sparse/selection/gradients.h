// Gradients for the tests of compressors.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "framework/core/rng.h"

namespace ndtrain {

// Of normal values, as gradients are: many near zero, few large; some exactly equal, some zero.
inline std::vector<float> gradient(int64_t n, uint64_t seed) {
  const Rng rng(seed, "gradient");
  std::vector<float> values(n);
  for (int64_t i = 0; i < n; ++i) {
    const double x = rng.normal(2 * i);
    const double kind = rng.uniform(2 * i + 1);
    if (kind < 0.6) values[i] = static_cast<float>(x * x * x);
    if (kind >= 0.6 && kind < 0.9) values[i] = static_cast<float>(std::round(x));
  }
  return values;
}

// Also with what no gradient should have.
inline std::vector<float> wild_gradient(int64_t n, uint64_t seed) {
  std::vector<float> values = gradient(n, seed);
  const std::vector<float> odd = {
      std::numeric_limits<float>::quiet_NaN(),  -std::numeric_limits<float>::quiet_NaN(),
      std::numeric_limits<float>::infinity(),   -std::numeric_limits<float>::infinity(),
      std::numeric_limits<float>::denorm_min(), -0.0F,
      std::numeric_limits<float>::max()};
  Rng rng(seed, "odd");
  for (const float x : odd) values[rng.next_below(n)] = x;
  return values;
}

}  // namespace ndtrain
