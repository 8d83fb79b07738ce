// Where somebody stands between the steps of a run: to wait for a binding before it is first read,
// and to take an output as soon as it is written.
#pragma once

#include <functional>

#include "framework/runtime/backend_abi.h"

namespace ndtrain {

// Both are called in the thread that runs, in an order fixed at plan time (Plan::need_order(),
// Plan::ready_order()), once for every binding and every output. On a device that shares the host's
// memory the work before a call is done. On others nobody has waited: the work before is queued on
// `stream`, and so is what a hook queues there, ahead of the work that follows; what goes on
// elsewhere is ordered by events. Either may be empty. What they throw leaves Executor::run() once
// the work that is queued has ended.
struct Hooks {
  // Before the first step that reads binding k. Of bindings that no step reads: at the end.
  std::function<void(int binding, ndt_stream* stream)> before;
  // After the step that completes output k.
  std::function<void(int output, ndt_stream* stream)> ready;

  explicit operator bool() const { return before || ready; }
};

}  // namespace ndtrain
