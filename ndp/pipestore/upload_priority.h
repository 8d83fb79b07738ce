// How jobs leave the processors to photos that people upload just now, without standing still.
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace ndtrain::ndp {

class UploadPriority {
 public:
  // Of a job whose next piece of work is due while people upload: so many photos, no more.
  static constexpr size_t kSmallPiece = 2;

  void upload_begins() {
    const std::lock_guard lock(mutex_);
    ++uploads_;
  }
  void upload_ends() {
    {
      const std::lock_guard lock(mutex_);
      --uploads_;
      last_ = Clock::now();
    }
    ended_.notify_all();
  }

  // Whether people upload, now or a moment ago.
  bool busy() const {
    const std::lock_guard lock(mutex_);
    return busy_at(Clock::now());
  }
  // Of a job, before a piece of work: waits until nobody has uploaded for a moment, but not long.
  // Whether the piece should be a small one.
  bool yield_to_uploads() {
    std::unique_lock lock(mutex_);
    if (!busy_at(Clock::now())) return false;
    const auto until = Clock::now() + kPatience;
    while (Clock::now() < until) {
      if (uploads_ == 0 && Clock::now() - last_ >= kQuiet) break;
      ended_.wait_until(lock, uploads_ == 0 ? std::min(until, last_ + kQuiet) : until);
    }
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kQuiet{5}, kPatience{100}, kLately{500};

  bool busy_at(Clock::time_point now) const { return uploads_ > 0 || now - last_ < kLately; }

  mutable std::mutex mutex_;  // of all below
  std::condition_variable ended_;
  int uploads_ = 0;
  Clock::time_point last_ = Clock::now() - kLately;
};

}  // namespace ndtrain::ndp
