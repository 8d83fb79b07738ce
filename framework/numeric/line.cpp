#include "framework/numeric/line.h"

#include <algorithm>
#include <cmath>

#include "framework/core/error.h"

namespace ndtrain {

Line fit_rising_line(std::span<const double> x, std::span<const double> y,
                     std::span<const double> weights) {
  if (x.size() != y.size() || x.size() != weights.size()) {
    throw Error("line: ", x.size(), " x, ", y.size(), " y and ", weights.size(), " weights");
  }
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const bool finite = std::isfinite(x[i]) && std::isfinite(y[i]) && std::isfinite(weights[i]);
    if (!finite || x[i] < 0 || y[i] < 0 || weights[i] <= 0) {
      throw Error("line: point ", i, " is ", x[i], ", ", y[i], " with weight ", weights[i]);
    }
    w += weights[i];
    wx += weights[i] * x[i];
    wy += weights[i] * y[i];
    wxx += weights[i] * x[i] * x[i];
    wxy += weights[i] * x[i] * y[i];
  }
  if (x.empty() || std::ranges::min(x) == std::ranges::max(x)) {
    throw Error("line: ", x.size(), " points, without two different x");
  }
  // About the means: sums of large squares would cancel.
  double xx = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += weights[i] * (x[i] - wx / w) * (x[i] - wx / w);
    xy += weights[i] * (x[i] - wx / w) * (y[i] - wy / w);
  }
  const double slope = xy / xx;
  const double at_zero = (wy - slope * wx) / w;
  // The sum of squares is convex: where its minimum is forbidden, the least is on that edge. Not
  // both can be below 0, where no point is.
  if (slope < 0) return {.at_zero = wy / w};
  if (at_zero < 0) return {.slope = wxy / wxx};
  return {.at_zero = at_zero, .slope = slope};
}

}  // namespace ndtrain
