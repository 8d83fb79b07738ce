// Those who come to a listener of a rendezvous, heard beside one another: one who is silent, or
// slow to show who it is, holds up nobody.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "framework/comm/rank_hello.h"
#include "framework/core/net.h"

namespace ndtrain {

// One thread calls next(). Borrows the listener.
class Arrivals {
 public:
  struct Arrival {
    std::unique_ptr<Stream> stream;
    Result<RankHello> hello;  // not ok: it is no rank, and was told so
  };

  explicit Arrivals(Listener& listener) : listener_(listener) {}
  ~Arrivals();  // hangs up on those that have not spoken

  // The next one who has spoken, or was given up; none within `patience`.
  std::optional<Arrival> next(std::chrono::milliseconds patience);

 private:
  using Steady = std::chrono::steady_clock;

  struct Guest {
    std::unique_ptr<Stream> stream;  // taken when it is heard
    Steady::time_point since;
    std::jthread thread = {};
  };

  void hear(Guest& guest);
  void receive(std::chrono::milliseconds patience);
  void dismiss();  // who is heard, and who takes too long

  Listener& listener_;
  std::mutex mutex_;  // of what follows, and of the guests' streams
  std::condition_variable spoken_;
  std::deque<Arrival> heard_;
  std::list<Guest> guests_;  // the list itself is next()'s
};

}  // namespace ndtrain
