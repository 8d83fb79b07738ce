// How long the parts of a rank's steps take.
#pragma once

#include <chrono>

#include "framework/core/clock.h"
#include "framework/sparse/control/telemetry.h"

namespace ndtrain {

// A step is begin(), forward_done() at most once, computed(), and what it waits up to the next
// begin(). One thread.
class StepClock {
 public:
  // Null: the system's.
  explicit StepClock(Clock* clock = nullptr) : clock_(clock ? *clock : system_clock()) {}

  // `waited_s`: for other ranks, in all so far; `agreeing_s`: of that what no drop of gradients
  // shortens.
  void begin(double waited_s, double agreeing_s = 0);
  // The forward pass of its rows is over; of those that are computed in parts nobody says so, and a
  // third of computing is taken for it, as StellaTrain does.
  void forward_done(double waited_s);
  // So is the backward pass.
  void computed(double waited_s);

  // Of the step before the last that began: forward_ms and backward_ms, without waiting; waiting in
  // its forward pass, in_forward_gap_ms, and from there to the next step, backward_forward_gap_ms.
  // but for agreeing. Zeros: there was none.
  const Telemetry& last() const { return last_; }

 private:
  Clock& clock_;
  bool begun_ = false, computed_ = false, split_ = false;
  std::chrono::nanoseconds begin_{}, forward_{};
  double waited_s_ = 0, waited_forward_s_ = 0;  // when the step began; and its forward pass ended
  double agreeing_s_ = 0;                       // when the step began
  Telemetry now_, last_;
};

}  // namespace ndtrain
