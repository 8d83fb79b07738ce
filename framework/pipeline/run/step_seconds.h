// What a step of a pipeline takes, where several may be drained together: in the steady state.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "framework/core/clock.h"

namespace ndtrain {

// Steps that are drained together have taken equal shares. The first one of all is not counted: it
// makes plans. One thread.
class StepSeconds {
 public:
  explicit StepSeconds(Clock& clock) : clock_(clock) {}

  void restart() { seconds_.clear(); }  // with those of an epoch, say
  void begin(int64_t steps);            // which are drained together
  void step_done();                     // of them
  void drained();
  double median() const;  // 0: none is counted

 private:
  Clock& clock_;
  std::chrono::nanoseconds since_{0};
  int64_t steps_ = 0;  // that end since then
  bool first_ = true;
  std::vector<double> seconds_;
};

}  // namespace ndtrain
