// Server-sent events: what changed, for pages that follow it. Thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "framework/core/clock.h"
#include "ndp/http/http_server.h"

namespace ndtrain::tuner {
using namespace ndp;

class EventFeed {
 public:
  // Each has a connection of the server, so their number and their life are bounded: a page comes
  // again by itself.
  static constexpr int kStreams = 16;
  static constexpr std::chrono::minutes kLife{10};
  static constexpr std::chrono::seconds kSilence{15};  // then a comment, so that proxies stay

  explicit EventFeed(Clock& clock) : clock_(clock) {}

  // The newest data of an event, one line. Everybody hears the newest of each; a slow one misses
  // what was between.
  void put(const std::string& event, const std::string& data);
  // Whether somebody follows: else nothing need be put.
  bool followed() const;
  // The answer to a request: first the newest of all events, then what changes. 503 when there are
  // as many as may be. The feed outlives the server.
  HttpResponse follow();

 private:
  struct Event {
    std::string data;
    uint64_t number = 0;  // of its last change
  };
  struct Follower {
    std::shared_ptr<void> place;
    uint64_t seen = 0;
    std::chrono::nanoseconds until{0}, said{0};
  };
  std::optional<std::string> next(Follower& follower);

  Clock& clock_;
  mutable std::mutex mutex_;  // of all below
  std::map<std::string, Event> events_;
  uint64_t newest_ = 0;
  int followers_ = 0;
};

}  // namespace ndtrain::tuner
