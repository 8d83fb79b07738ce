#include "ndp/jobs/in_turn.h"

#include "framework/core/clock.h"
#include "framework/core/named_lock.h"

namespace ndtrain::ndp {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{100};

}  // namespace

Status take_in_turn(const std::function<Status()>& take, const std::string& remedy,
                    Progress& progress) {
  for (std::string said;; system_clock().sleep(kBetweenLooks)) {
    const Status s = take();
    if (s.code() != Code::kExists) return s;
    if (progress.interrupted()) return {Code::kCancelled, s.message()};
    if (said != s.message()) progress.say("waits: " + s.message() + "; " + remedy);
    said = s.message();
  }
}

Result<std::unique_ptr<FileLock>> lock_in_turn(Fs& fs, const std::string& path,
                                               const std::string& who, const std::string& remedy,
                                               Progress& progress) {
  std::unique_ptr<FileLock> held;
  const auto take = [&] {
    Result<std::unique_ptr<FileLock>> lock = lock_as(fs, path, who);
    if (lock.ok()) held = std::move(*lock);
    return lock.status();
  };
  if (Status s = take_in_turn(take, remedy, progress); !s.ok()) return s;
  return held;
}

}  // namespace ndtrain::ndp
