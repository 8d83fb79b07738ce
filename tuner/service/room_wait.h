// Jobs that something failed of while the Tuner's volume was full: they wait until there is room,
// and begin again from where they were. Full is a volume of which hardly more than the last 5 % are
// free, which stay free. One thread, the service's.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "framework/core/clock.h"
#include "framework/core/fs.h"

namespace ndtrain::tuner {

class RoomWait {
 public:
  using Time = std::chrono::nanoseconds;
  // Between two looks at the volume.
  static constexpr Time kLook = std::chrono::seconds(10);
  // Bytes beyond the last 5 % with which a job goes on, or 5 % more where these are fewer.
  static constexpr int64_t kRoom = int64_t{64} << 20;

  // `directory` is on the volume.
  RoomWait(Fs& fs, Clock& clock, std::string directory)
      : fs_(fs), clock_(clock), directory_(std::move(directory)) {}

  // False, and the job does not wait, where there is room or nobody can tell.
  bool wait(uint64_t job, const std::string& why);
  void end(uint64_t job) { waiting_.erase(job); }

  std::string text(uint64_t job) const;  // for people; "": it does not wait
  void tick();
  Time next() const;  // when tick() has something to do; Time::max() for never

 private:
  bool is_full() const;

  Fs& fs_;
  Clock& clock_;
  const std::string directory_;
  std::map<uint64_t, std::string> waiting_;  // why, by job
  Time look_at_{0};
};

}  // namespace ndtrain::tuner
