// The threads on which handlers run: as many as are wanted at once, up to a bound. Some are kept
// for requests that must not wait behind others (FairQueue says which those are).
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "ndp/http/fair_queue.h"

namespace ndtrain::ndp {

class HandlerThreads {
 public:
  // How many threads each class may have, together with those behind it.
  using Bounds = std::array<int64_t, kRequestClasses>;
  // Of `most` threads `reserved` are for health and operators, a quarter of these for health alone;
  // and as many again are for no uploads.
  static Bounds bounds(int64_t most, int64_t reserved);

  explicit HandlerThreads(const Bounds& bounds) : bounds_(bounds) {}
  // After all that was asked for.
  ~HandlerThreads();
  HandlerThreads(const HandlerThreads&) = delete;
  HandlerThreads& operator=(const HandlerThreads&) = delete;

  // From any thread; a task throws nothing.
  void run(RequestClass of, const std::string& client, std::function<void()> task);

 private:
  void work();
  // Under mutex_. The last class of which one may begin now; none: all threads are taken.
  std::optional<RequestClass> last_that_may() const;
  bool may_begin() const;

  const Bounds bounds_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  FairQueue<std::function<void()>> waiting_;
  std::array<int64_t, kRequestClasses> at_work_ = {};
  int64_t idle_ = 0;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ndtrain::ndp
