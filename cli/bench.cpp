#include "cli/bench.h"

#include <algorithm>
#include <chrono>

namespace ndtrain::cli {

std::vector<double> timed(double seconds, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  auto since = [](Clock::time_point t) {
    return std::chrono::duration<double>(Clock::now() - t).count();
  };
  work();
  work();
  std::vector<double> times;
  for (const auto start = Clock::now(); times.size() < 3 || since(start) < seconds;) {
    const auto t = Clock::now();
    work();
    times.push_back(since(t));
  }
  std::ranges::sort(times);
  return times;
}

double median(const std::vector<double>& sorted) {
  const size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

}  // namespace ndtrain::cli
