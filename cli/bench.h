#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "framework/core/tensor.h"

namespace ndtrain::cli {

// Calls `work` twice to warm up, then at least three times and for at least `seconds`; the time of
// each counted call, sorted.
std::vector<double> timed(double seconds, const std::function<void()>& work);
double median(const std::vector<double>& sorted);
double seconds_since(std::chrono::steady_clock::time_point start);

// Normally distributed; bytes are spread over their range.
Tensor random_tensor(const TensorType& type, uint64_t seed);

}  // namespace ndtrain::cli
