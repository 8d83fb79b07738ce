// Statistics per channel of [N, C, …].
#pragma once

#include "framework/ops/common.h"
#include "framework/ops/spatial.h"

namespace ndtrain {

struct BatchStatistics {
  std::vector<double> mean, var;      // population variance
  std::vector<double> inv_deviation;  // 1 / sqrt(var + epsilon)
};

BatchStatistics batch_statistics(const Shape& x, const std::vector<double>& values, double epsilon);

// Calls f(flat index, channel) for every element of [N, C, …].
template <typename F>
void for_each_in_channels(const Shape& x, const F& f) {
  const int64_t plane = x.count(2, x.rank());
  for (int64_t i = 0; i < x.count(); ++i) f(i, i / plane % x[1]);
}

}  // namespace ndtrain
