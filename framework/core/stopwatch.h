#pragma once

#include <chrono>

#include "framework/core/clock.h"

namespace ndtrain {

// Adds to `seconds` how long it lives.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds), begun_(system_clock().monotonic()) {}
  ~Stopwatch() {
    seconds_ += std::chrono::duration<double>(system_clock().monotonic() - begun_).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  const std::chrono::nanoseconds begun_;
};

}  // namespace ndtrain
