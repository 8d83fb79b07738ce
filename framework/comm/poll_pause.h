// Pauses of a thread that has to ask again and again.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace ndtrain {

// None for the first moment after something has happened, so that what follows at once is not late;
// then an eighth of the time since, up to a millisecond. wake() is for any thread, the rest for
// one.
class PollPause {
 public:
  using Time = std::chrono::nanoseconds;  // of a clock that does not go back

  static Time now();
  void stir() { stirred_ = now(); }  // something has happened
  void pause(Time at_most);
  void pause_unless_woken(Time at_most);
  Time length(Time at_most) const;  // of the next one

  void wake();        // ends the latter, now or the next time
  bool take_woken();  // whether somebody did since the last call

 private:
  Time stirred_ = now();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
};

}  // namespace ndtrain
