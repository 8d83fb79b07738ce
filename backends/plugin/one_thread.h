#pragma once

#include "framework/runtime/backend_abi.h"

namespace ndtrain::plugin {

// While it lives: whether the kernel that this thread prepares will run in one thread, as
// ndt_node::in_one_thread says.
class OneThread {
 public:
  explicit OneThread(const ndt_node* node) { asked_ = node && node->in_one_thread != 0; }
  ~OneThread() { asked_ = false; }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

  static bool asked() { return asked_; }

 private:
  static inline thread_local bool asked_ = false;
};

}  // namespace ndtrain::plugin
