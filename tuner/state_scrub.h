// Reads what a Tuner must not lose, for what disks do to files that lie on them: the label
// database, where it is a file, and the models. Quickly when the Tuner starts, all of it behind its
// work soon after and once in each period. What is damaged is told, until it is put right or
// removed, and used no more: whoever reads it sees that, too.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "framework/core/clock.h"
#include "framework/core/fs.h"

namespace ndtrain::tuner {

class StateScrub {
 public:
  using Time = std::chrono::nanoseconds;

  struct Setting {
    std::string labels;                     // SQLite's file; "": the labels are elsewhere
    std::string models;                     // directory; a file there is called as its SHA-256
    Time period{0};                         // 0: a quick look when it starts, and no more
    Time first = std::chrono::seconds(60);  // from the start to the first reading of all
  };

  // Has looked at the labels when it returns, unless their file is so large that it would hold up a
  // start; what cannot be read is told as what is damaged is.
  StateScrub(Setting setting, Fs& fs, Clock& clock);

  struct Counts {
    int64_t rounds = 0, files = 0;               // of all, since it began; files read in them
    std::map<std::string, std::string> damaged;  // what is wrong, by file
  };
  Counts counts() const;

 private:
  void run(const std::stop_token& stop);
  void look_at_all(const std::stop_token& stop);
  bool is_gone(const std::string& file) const;
  void forget_removed();
  void look_at_labels(const std::stop_token& stop);
  void found(const std::string& file, const Status& s, const char* remedy);

  const Setting setting_;
  Fs& fs_;
  Clock& clock_;
  mutable std::mutex mutex_;
  Counts counts_;
  std::jthread thread_;
};

}  // namespace ndtrain::tuner
