// Lanes whose tasks wait until a test runs them.
#pragma once

#include <deque>

#include "framework/core/lanes.h"

namespace ndtrain::support {

struct WaitingLanes final : Lanes {
  void start(size_t, Task task) override { tasks.push_back(std::move(task)); }
  // And what they start.
  void run() {
    while (!tasks.empty()) {
      const Task task = std::move(tasks.front());
      tasks.pop_front();
      if (const Continuation after = task()) after();
    }
  }
  std::deque<Task> tasks;
};

}  // namespace ndtrain::support
