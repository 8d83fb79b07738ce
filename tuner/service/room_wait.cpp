#include "tuner/service/room_wait.h"

#include <algorithm>

namespace ndtrain::tuner {

bool RoomWait::is_full() const {
  const Result<Space> space = fs_.space(directory_);
  if (!space.ok()) return false;
  const int64_t stays_free = space->total / 20;
  return space->free - stays_free < std::min(kRoom, stays_free);
}

bool RoomWait::wait(uint64_t job, const std::string& why) {
  if (!is_full()) return false;
  waiting_[job] = why;
  look_at_ = clock_.monotonic() + kLook;
  return true;
}

std::string RoomWait::text(uint64_t job) const {
  const auto at = waiting_.find(job);
  return at == waiting_.end() ? ""
                              : "waits for room on the volume of " + directory_ + ": " + at->second;
}

void RoomWait::tick() {
  if (waiting_.empty() || clock_.monotonic() < look_at_) return;
  look_at_ = clock_.monotonic() + kLook;
  if (!is_full()) waiting_.clear();
}

RoomWait::Time RoomWait::next() const { return waiting_.empty() ? Time::max() : look_at_; }

}  // namespace ndtrain::tuner
