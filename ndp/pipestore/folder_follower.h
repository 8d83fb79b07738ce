// Follows the photo directory: what may have changed there is looked at as soon as it has been
// quiet for a moment, or has not been for long, and all of it now and then, for what nobody heard
// of. A state machine without a thread; FolderThread is one.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "framework/core/clock.h"
#include "framework/core/directory_watch.h"
#include "ndp/pipestore/photo_inventory.h"

namespace ndtrain::ndp {

class FolderFollower {
 public:
  using Time = std::chrono::nanoseconds;

  struct Options {
    Time quiet = std::chrono::milliseconds(300);  // since what was last heard of a path
    Time patience = std::chrono::seconds(2);      // since what was heard of first
    Time rescan{0};                               // between looks at all; 0: none but the first
  };
  struct Ports {
    Clock& clock;
    std::function<Result<FolderLook>(const DirectoryChanges&)> look;
    std::function<void()> count = {};  // what there is by now: it costs more than a look at little
  };

  FolderFollower(Ports ports, Options options);

  void changed(const DirectoryChanges& changes);
  void count_soon() { count_wanted_ = true; }  // any thread
  void tick();                                 // looks where it is time
  Time next() const;                           // when that is; Time::max(): never

 private:
  // Of what was heard of and not looked at yet.
  struct Heard {
    Time first{0}, last{0};
    bool file = false;
  };

  Time due() const;
  DirectoryChanges take(Time now);
  void count(Time now);
  void looked(const FolderLook& look, Time now);
  void say();

  const Ports ports_;
  const Options options_;
  std::map<std::string, Heard> heard_;
  Time all_due_{0}, not_before_{0};
  Time count_due_ = Time::max(), not_before_count_{0};
  std::atomic<bool> count_wanted_ = false;
  Time first_ = Time::max(), last_{0};  // of what was heard of
  FolderLook since_said_;
  std::string failed_;  // why the last look did not come to its end
};

// Until it is destroyed, which a look in progress is ended for.
class FolderThread {
 public:
  // `stopping` becomes true when this ends; `follower` must outlive it.
  FolderThread(std::unique_ptr<DirectoryWatch> watch, FolderFollower& follower, Clock& clock,
               std::atomic<bool>& stopping);
  ~FolderThread();
  FolderThread(const FolderThread&) = delete;
  FolderThread& operator=(const FolderThread&) = delete;

  // Counts anew what there is, as something else than the directory has changed that. Any thread.
  void count_soon();

 private:
  void run();

  const std::unique_ptr<DirectoryWatch> watch_;
  FolderFollower& follower_;
  Clock& clock_;
  std::atomic<bool>& stopping_;
  std::jthread thread_;
};

}  // namespace ndtrain::ndp
