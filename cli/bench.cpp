#include "cli/bench.h"

#include <algorithm>
#include <chrono>

#include "framework/core/rng.h"

namespace ndtrain::cli {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<double> timed(double seconds, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  work();
  work();
  std::vector<double> times;
  for (const auto start = Clock::now(); times.size() < 3 || seconds_since(start) < seconds;) {
    const auto t = Clock::now();
    work();
    times.push_back(seconds_since(t));
  }
  std::ranges::sort(times);
  return times;
}

Tensor random_tensor(const TensorType& type, uint64_t seed) {
  const Rng rng(seed, "bench");
  const double spread = size_of(type.dtype) == 1 ? 30 : 1;
  std::vector<double> values(static_cast<size_t>(type.shape.count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = spread * rng.normal(i);
  return Tensor::from_doubles(type, values);
}

double median(const std::vector<double>& sorted) {
  const size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

}  // namespace ndtrain::cli
