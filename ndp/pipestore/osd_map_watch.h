// The watch of photos in Ceph RADOS: of new objects nobody hears; when the cluster's map gives the
// host other placement groups, or it has no more to do with old ones, all is to be looked at.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include "framework/core/clock.h"
#include "framework/core/directory_watch.h"
#include "ndp/rados/rados_fs.h"

namespace ndtrain::ndp {

class OsdMapWatch final : public DirectoryWatch {
 public:
  static constexpr std::chrono::nanoseconds kBetweenLooks = std::chrono::seconds(2);

  // `fs` and `clock` outlive it.
  OsdMapWatch(RadosFs& fs, std::string photos, Clock& clock)
      : fs_(fs), photos_(std::move(photos)), clock_(clock) {}

  DirectoryChanges wait(std::chrono::nanoseconds at_most) override {
    if (!std::exchange(begun_, true)) return {.all = true};
    if (clock_.monotonic() < due_) {
      std::unique_lock lock(mutex_);
      const auto until_look = due_ - clock_.monotonic();
      awake_.wait_for(lock, std::min(at_most, until_look), [this] { return woken_; });
      if (std::exchange(woken_, false)) return {};
    }
    if (clock_.monotonic() < due_) return {};
    const Result<bool> changed = fs_.look(photos_);
    due_ = clock_.monotonic() + kBetweenLooks;
    status_ = changed.status();
    return {.all = changed.ok() && *changed};
  }
  void wake() override {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    awake_.notify_all();
  }
  Status complete() const override { return status_; }

 private:
  RadosFs& fs_;
  const std::string photos_;
  Clock& clock_;
  bool begun_ = false;
  std::chrono::nanoseconds due_{0};  // the next look
  Status status_;
  std::mutex mutex_;
  std::condition_variable awake_;
  bool woken_ = false;
};

}  // namespace ndtrain::ndp
