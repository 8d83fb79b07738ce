// Simulated time: what happens when, in order. One thread.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "framework/core/clock.h"

namespace ndtrain::sim {

using Time = std::chrono::nanoseconds;

constexpr Time seconds(double s) {
  return std::chrono::duration_cast<Time>(std::chrono::duration<double>(s));
}

class Timeline {
 public:
  ManualClock& clock() { return clock_; }
  Time now() const { return clock_.monotonic(); }

  // Equal times in the order of the calls.
  void at(Time when, std::function<void()> what) {
    events_.emplace(std::pair(std::max(when, now()), ++serial_), std::move(what));
  }
  void after(Time delay, std::function<void()> what) { at(now() + delay, std::move(what)); }

  // The next thing; false when there is none.
  bool step() {
    if (events_.empty()) return false;
    auto next = events_.extract(events_.begin());
    clock_.advance(next.key().first - now());
    trace_ = (trace_ ^ static_cast<uint64_t>(now().count())) * 0x9e3779b97f4a7c15;
    next.mapped()();
    return true;
  }
  // A checksum of when things happened: of two runs that went the same way, the same.
  uint64_t trace() const { return trace_; }

 private:
  ManualClock clock_;
  uint64_t serial_ = 0, trace_ = 0;
  std::map<std::pair<Time, uint64_t>, std::function<void()>> events_;
};

}  // namespace ndtrain::sim
