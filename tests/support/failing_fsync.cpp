#include "tests/support/failing_fsync.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace ndtrain::support {
namespace {

std::atomic<int> failing = 0;
std::atomic<int64_t> spared = 0, failures = 0;

int sync_by(long call, int fd) {
  if (failing == 0 || --spared >= 0) return static_cast<int>(::syscall(call, fd));
  ++failures;
  errno = EIO;
  return -1;
}

}  // namespace

FailingFsync::FailingFsync(int64_t n) {
  spared = n;
  ++failing;
}
FailingFsync::~FailingFsync() { --failing; }
int64_t FailingFsync::failed() { return failures; }

// Visible to shared libraries: SQLite's calls come here too.
extern "C" [[gnu::visibility("default")]] int fsync(int fd) { return sync_by(SYS_fsync, fd); }
extern "C" [[gnu::visibility("default")]] int fdatasync(int fd) {
  return sync_by(SYS_fdatasync, fd);
}

}  // namespace ndtrain::support
