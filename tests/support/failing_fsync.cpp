#include "tests/support/failing_fsync.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace ndtrain::support {
namespace {

std::atomic<int> failing = 0;

int sync_by(long call, int fd) {
  if (failing == 0) return static_cast<int>(::syscall(call, fd));
  errno = EIO;
  return -1;
}

}  // namespace

FailingFsync::FailingFsync() { ++failing; }
FailingFsync::~FailingFsync() { --failing; }

// Visible to shared libraries: SQLite's calls come here too.
extern "C" [[gnu::visibility("default")]] int fsync(int fd) { return sync_by(SYS_fsync, fd); }
extern "C" [[gnu::visibility("default")]] int fdatasync(int fd) {
  return sync_by(SYS_fdatasync, fd);
}

}  // namespace ndtrain::support
