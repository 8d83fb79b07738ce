// A thread that does something again and again, whenever it is due, until it is destroyed, which
// waits for the step in progress.
#pragma once

#include <functional>
#include <thread>

#include "framework/core/clock.h"

namespace ndtrain::ndp {

class StepThread {
 public:
  // `step` does what is due, and says when there is more, by the clock's monotonic time; what it
  // throws is logged as of `name`, once while it stays the same.
  StepThread(const char* name, std::function<std::chrono::nanoseconds()> step, Clock& clock);

 private:
  std::jthread thread_;
};

}  // namespace ndtrain::ndp
