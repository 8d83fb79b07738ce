#include "framework/sparse/sync/step_clock.h"

#include <algorithm>
#include <utility>

namespace ndtrain {
namespace {

double ms(std::chrono::nanoseconds t) {
  return std::chrono::duration<double, std::milli>(t).count();
}

}  // namespace

void StepClock::begin(double waited_s, double agreeing_s) {
  const double agreed_s = agreeing_s - std::exchange(agreeing_s_, agreeing_s);
  if (begun_ && computed_) {
    last_ = now_;
    // What is left where all of it was agreeing may be below 0 by a rounding.
    last_.backward_forward_gap_ms = std::max(0.0, 1e3 * (waited_s - waited_forward_s_ - agreed_s));
  }
  begun_ = true;
  computed_ = split_ = false;
  waited_s_ = waited_forward_s_ = waited_s;
  begin_ = clock_.monotonic();
}

void StepClock::forward_done(double waited_s) {
  if (split_) return;
  split_ = true;
  forward_ = clock_.monotonic();
  waited_forward_s_ = waited_s;
}

// A clock that jumps back says nothing of this step (fault_of()).
void StepClock::computed(double waited_s) {
  const std::chrono::nanoseconds now = clock_.monotonic();
  if (split_) {
    const double waited_ms = 1e3 * (waited_forward_s_ - waited_s_);
    now_ = {.forward_ms = ms(forward_ - begin_) - waited_ms,
            .backward_ms = ms(now - forward_) - 1e3 * (waited_s - waited_forward_s_),
            .in_forward_gap_ms = waited_ms};
  } else {
    const double all = ms(now - begin_) - 1e3 * (waited_s - waited_s_);
    now_ = {.forward_ms = all / 3, .backward_ms = 2 * all / 3};
  }
  computed_ = true;
}

}  // namespace ndtrain
