// How far a link is read ahead of who deals with its messages: at kReadAhead bytes reading pauses,
// and whoever is at the other end waits, as flow control has it. So a peer that sends faster than
// it is dealt with costs no memory. Thread-safe; owned by the link's stream and by the messages
// that are not dealt with.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "framework/core/limits.h"

namespace ndtrain::ndp {

class ReadAhead : public std::enable_shared_from_this<ReadAhead> {
 public:
  static constexpr size_t kMost = 4 * static_cast<size_t>(limits::kMessage);

  // `read_on` may be called on any thread, with this object's lock held.
  explicit ReadAhead(std::function<void()> read_on) : read_on_(std::move(read_on)) {}

  struct Message {
    std::shared_ptr<void> held;  // until it is dealt with
    bool read_on = true;         // else `read_on` is called once enough is dealt with
  };
  Message take(size_t bytes) {  // a message was read
    const std::lock_guard lock(mutex_);
    bytes_ += bytes;
    paused_ = bytes_ >= kMost;
    return {.held = {nullptr, [all = shared_from_this(), bytes](void*) { all->dealt_with(bytes); }},
            .read_on = !paused_};
  }

  // `read_on` is not called any more, nor is it being called on return. Without locks that it
  // takes.
  void stop() {
    const std::lock_guard lock(mutex_);
    read_on_ = nullptr;
  }

 private:
  void dealt_with(size_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes_ -= bytes;
    if (!paused_ || bytes_ >= kMost / 2) return;
    paused_ = false;
    if (read_on_) read_on_();
  }

  std::mutex mutex_;
  std::function<void()> read_on_;
  size_t bytes_ = 0;  // of messages that are not dealt with
  bool paused_ = false;
};

}  // namespace ndtrain::ndp
