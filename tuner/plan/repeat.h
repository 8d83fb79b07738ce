#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "framework/core/clock.h"

namespace ndtrain::tuner {

// Median seconds of `work`, after a first time that is not counted, over about `budget` seconds; at
// least one counted time.
template <typename F>
double median_seconds(Clock& clock, double budget, F work) {
  const auto seconds = [&](auto since) {
    return std::chrono::duration<double>(clock.monotonic() - since).count();
  };
  const auto start = clock.monotonic();
  work();
  std::vector<double> times;
  do {
    const auto t = clock.monotonic();
    work();
    times.push_back(seconds(t));
  } while (seconds(start) < budget && times.size() < 1000);
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

}  // namespace ndtrain::tuner
