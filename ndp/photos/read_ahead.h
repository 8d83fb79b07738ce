// Photos that come from far away, several at a time: while one is used those behind it are on
// their way, so that what each waits for the network is not added up.
//
// How many are under way follows from what is measured (Little's law): with requests that take as
// long as it takes to use n photos, n of them keep the user busy. Twice as many are asked for,
// since neither time is always the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "framework/core/clock.h"
#include "framework/core/status.h"

namespace ndtrain::ndp {

// How many requests are worth having under way, by the times that were told.
class ReadAheadPace {
 public:
  static constexpr int kFirst = 16;  // before anything is known
  static constexpr int kLeast = 4, kMost = 64;

  void fetched(std::chrono::nanoseconds took);  // one photo, from its request to its last byte
  void used(std::chrono::nanoseconds took);     // one photo, the network not waited for
  int at_once() const;

 private:
  double fetch_s_ = 0;             // smoothed
  double use_s_ = 0, photos_ = 0;  // sums, of which the older half counts half
};

class PhotoReadAhead {
 public:
  using Open = std::function<Result<std::string>(size_t item)>;
  static constexpr size_t kAhead = 64;  // photos that are there or on their way, or twice at_once()
  static constexpr int64_t kBytes = int64_t{64} << 20;  // of these; one may always be

  struct Items {
    std::span<const size_t> in_order;           // one may be left out
    Open open;                                  // called by any thread
    std::function<int64_t(size_t item)> bytes;  // how large it is, about
  };

  explicit PhotoReadAhead(const Items& items, Clock& clock = system_clock());
  ~PhotoReadAhead();  // waits for requests under way

  // What `open` says of the item; one that was taken, or is far behind those that were, is opened
  // again. Once an item is kUnavailable nothing more is asked for: all that is not there is so. Any
  // thread; items may be taken in another order by as much as some threads take beside each other.
  Result<std::string> take(size_t item);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ndtrain::ndp
