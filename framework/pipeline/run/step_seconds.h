// What a step of a pipeline takes, where several may be drained together: in the steady state.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "framework/core/clock.h"

namespace ndtrain {

// A step that is drained alone lasts until it is; of several that follow each other one lasts from
// when this rank was done with the one before, so that neither filling the pipeline nor draining it
// counts. The first one of all is not counted: it makes plans. One thread.
class StepSeconds {
 public:
  explicit StepSeconds(Clock& clock) : clock_(clock) {}

  void restart() { seconds_.clear(); }  // with those of an epoch, say
  void begin(int64_t steps);            // which are drained together
  void step_done();                     // of them
  void drained();
  double median() const;  // 0: none is counted

 private:
  void count();  // the time since the last call, where it is a step's

  Clock& clock_;
  std::chrono::nanoseconds since_{0};
  bool alone_ = true;    // it is drained alone
  bool counts_ = false;  // what lasts now
  bool first_ = true;
  std::vector<double> seconds_;
};

}  // namespace ndtrain
