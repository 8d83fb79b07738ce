// The clocks of one computer in simulated time. What counts for deadlines starts anew when the
// machine does, and may stand still while it is suspended; the one on the wall may be set.
#pragma once

#include "tests/sim/timeline.h"

namespace ndtrain::sim {

class MachineClock final : public Clock {
 public:
  // Keeps a reference.
  explicit MachineClock(Timeline& timeline) : timeline_(timeline) {}

  Time monotonic() const override { return timeline_.now() - base_ + (by_wall_ ? wall_ : Time(0)); }
  int64_t unix_seconds() const override {
    return timeline_.clock().unix_seconds() +
           std::chrono::duration_cast<std::chrono::seconds>(wall_).count();
  }
  void sleep(Time d) override { timeline_.clock().sleep(d); }

  void power_up() { base_ = timeline_.now() - seconds(20); }
  void stand_still(Time d) { base_ += d; }
  void set_wall(Time by) { wall_ += by; }
  void take_wall_for_monotonic() { by_wall_ = true; }

 private:
  Timeline& timeline_;
  Time base_{0}, wall_{0};
  bool by_wall_ = false;
};

}  // namespace ndtrain::sim
