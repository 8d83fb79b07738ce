#pragma once

#include <chrono>
#include <cstdint>

namespace ndtrain {

// Time, injected so that a simulator can own it. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::chrono::nanoseconds monotonic() const = 0;  // for deadlines and durations
  virtual int64_t unix_seconds() const = 0;                // for people and databases
  virtual void sleep(std::chrono::nanoseconds d) = 0;
};

Clock& system_clock();

// Moves only when told to, or when somebody sleeps. Not thread-safe.
class ManualClock final : public Clock {
 public:
  std::chrono::nanoseconds monotonic() const override { return now_; }
  int64_t unix_seconds() const override {
    return kEpoch + std::chrono::duration_cast<std::chrono::seconds>(now_).count();
  }
  void sleep(std::chrono::nanoseconds d) override { now_ += d; }
  void advance(std::chrono::nanoseconds d) { now_ += d; }

 private:
  static constexpr int64_t kEpoch = 1'600'000'000;
  std::chrono::nanoseconds now_{0};
};

}  // namespace ndtrain
