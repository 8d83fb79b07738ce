// A straight line through points, by least squares.
#pragma once

#include <span>

namespace ndtrain {

struct Line {
  double at_zero = 0, slope = 0;
};

// The least sum of weight x (at_zero + slope x - y)^2 of all lines with neither number below 0.
// Throws Error: fewer than two different x, other numbers of y or of weights, an x or y below 0,
// a weight that is not above 0, anything that is not finite.
Line fit_rising_line(std::span<const double> x, std::span<const double> y,
                     std::span<const double> weights);

}  // namespace ndtrain
