// A disk that fails to sync, for the whole process: C's own fsync and fdatasync are replaced in
// every test program that has failing_fsync.cpp among its sources, for libraries too.
#pragma once

#include <cstdint>

namespace ndtrain::support {

// While one lives, every fsync but the first `spared` fails with EIO.
class FailingFsync {
 public:
  explicit FailingFsync(int64_t spared = 0);
  ~FailingFsync();
  FailingFsync(const FailingFsync&) = delete;
  FailingFsync& operator=(const FailingFsync&) = delete;

  static int64_t failed();  // so far, in this process
};

}  // namespace ndtrain::support
