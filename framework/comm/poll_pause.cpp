#include "framework/comm/poll_pause.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace ndtrain {
namespace {

constexpr PollPause::Time kNone = std::chrono::microseconds(300);
constexpr PollPause::Time kLongestPause = std::chrono::milliseconds(1);

}  // namespace

PollPause::Time PollPause::now() { return std::chrono::steady_clock::now().time_since_epoch(); }

PollPause::Time PollPause::length(Time at_most) const {
  const Time quiet = now() - stirred_;
  return quiet < kNone ? Time(0) : std::min({at_most, kLongestPause, quiet / 8});
}

void PollPause::pause(Time at_most) {
  const Time time = length(at_most);
  return time.count() > 0 ? std::this_thread::sleep_for(time) : std::this_thread::yield();
}

void PollPause::pause_unless_woken(Time at_most) {
  const Time time = length(at_most);
  if (time.count() == 0) return std::this_thread::yield();
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [&] { return woken_; });
}

void PollPause::wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

bool PollPause::take_woken() {
  const std::lock_guard lock(mutex_);
  return std::exchange(woken_, false);
}

}  // namespace ndtrain
