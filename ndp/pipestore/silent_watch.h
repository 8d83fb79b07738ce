// The watch of photos of which nobody hears, as in S3: at first all may be other than it was, and
// then they have to be looked at.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#include "framework/core/directory_watch.h"

namespace ndtrain::ndp {

class SilentWatch final : public DirectoryWatch {
 public:
  DirectoryChanges wait(std::chrono::nanoseconds at_most) override {
    std::unique_lock lock(mutex_);
    if (!std::exchange(begun_, true)) return {.all = true};
    awake_.wait_for(lock, at_most, [this] { return woken_; });
    woken_ = false;
    return {};
  }
  void wake() override {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    awake_.notify_all();
  }
  Status complete() const override { return {}; }

 private:
  std::mutex mutex_;
  std::condition_variable awake_;
  bool begun_ = false, woken_ = false;
};

}  // namespace ndtrain::ndp
