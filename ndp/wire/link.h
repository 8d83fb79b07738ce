// Streams of messages between PipeStores and a Tuner, as their roles see them: events that arrive
// in a queue, messages that are handed off. One thread of a role takes the events and owns its
// state machines; whatever carries the messages has threads of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "framework/core/status.h"
#include "ndp/wire/link_security.h"

namespace ndtrain::ndp {

using LinkId = uint64_t;  // never used twice by one process

// A stream is open: who is at the other end, as people name it, and the name, the hosts and the
// role that its certificate gives it ("" and none without one).
struct LinkOpened {
  std::string peer, certified;
  std::vector<std::string> hosts = {};
  std::optional<LinkRole> role = std::nullopt;
};
struct LinkClosed {
  std::string reason;
};

template <typename Message>
struct LinkEvent {
  LinkId link = 0;
  std::variant<LinkOpened, Message, LinkClosed> what;
  std::shared_ptr<void> held = {};  // goes when a message is dealt with: see ReadAhead
};

// What happened on all links of a role, in order for each link: opened, messages, closed; nothing
// after closed. Any thread puts, one takes.
template <typename Message>
class LinkEvents {
 public:
  using Event = LinkEvent<Message>;

  void put(Event event) {
    {
      const std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
    }
    ready_.notify_one();
  }

  // Waits for the next event; nullopt when `timeout` passes first, or wake() was called.
  std::optional<Event> take(std::chrono::nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, timeout, [&] { return !events_.empty() || woken_; });
    woken_ = false;
    if (events_.empty()) return std::nullopt;
    Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

  void wake() {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    ready_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Event> events_;
  bool woken_ = false;
};

}  // namespace ndtrain::ndp
