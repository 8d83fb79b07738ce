#pragma once

#include <array>
#include <span>

namespace ndtrain::compressors {

// The sum of f(value) in double, in an order that is that of no compiler: of eight lanes, each
// every eighth value, and then of these.
template <typename F>
double lane_sum(std::span<const float> values, const F& f) {
  std::array<double, 8> lanes = {};
  size_t i = 0;
  for (; i + lanes.size() <= values.size(); i += lanes.size()) {
    for (size_t lane = 0; lane < lanes.size(); ++lane) lanes[lane] += f(values[i + lane]);
  }
  for (size_t lane = 0; i < values.size(); ++lane, ++i) lanes[lane] += f(values[i]);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace ndtrain::compressors
