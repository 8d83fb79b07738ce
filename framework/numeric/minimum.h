// What searches for a minimum have in common.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace ndtrain {

using Objective = std::function<double(std::span<const double>)>;

struct Bounds {
  std::vector<double> low, high;  // of each coordinate
};
// Throws Error: no coordinates, as many low as high ones are not there, low is not below high, not
// finite.
void validate(const Bounds& bounds);

struct Minimum {
  std::vector<double> at;
  double value = 0;
  int evaluations = 0;  // of the objective
};

}  // namespace ndtrain
