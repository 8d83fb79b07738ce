#pragma once

#include <algorithm>
#include <cmath>

#include "ndp/labels/label_types.h"

namespace ndtrain::ndp {

struct Interval {
  double low = 0, high = 1;
};

// The 95 % interval of a share (Wilson 1927): (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n).
inline Interval wilson_interval(const Agreement& a) {
  if (a.photos == 0) return {};
  constexpr double kZ = 1.959963984540054;
  const auto n = static_cast<double>(a.photos), p = static_cast<double>(a.agree) / n;
  const double middle = p + kZ * kZ / (2 * n), scale = 1 + kZ * kZ / n;
  const double reach = kZ * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n));
  // Rounding must not leave 0 or 1 where all are alike.
  return {a.agree == 0 ? 0 : std::max(0.0, (middle - reach) / scale),
          a.agree == a.photos ? 1 : std::min(1.0, (middle + reach) / scale)};
}

}  // namespace ndtrain::ndp
