#include "ndp/wire/read_ahead.h"

namespace ndtrain::ndp {

ReadAhead::Message ReadAhead::take(size_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_ += bytes;
  paused_ = bytes_ >= kMost;
  return {.held = {nullptr, [all = shared_from_this(), bytes](void*) { all->dealt_with(bytes); }},
          .read_on = !paused_};
}

void ReadAhead::dealt_with(size_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_ -= bytes;
  if (!paused_ || bytes_ >= kMost / 2) return;
  paused_ = false;
  if (read_on_) read_on_();
}

void ReadAhead::stop() {
  const std::lock_guard lock(mutex_);
  read_on_ = nullptr;
}

}  // namespace ndtrain::ndp
