// A disk that fails to sync, for the whole process: C's own fsync and fdatasync are replaced in
// every test program that has failing_fsync.cpp among its sources, for libraries too.
#pragma once

namespace ndtrain::support {

// While one lives, every fsync fails with EIO.
class FailingFsync {
 public:
  FailingFsync();
  ~FailingFsync();
  FailingFsync(const FailingFsync&) = delete;
  FailingFsync& operator=(const FailingFsync&) = delete;
};

}  // namespace ndtrain::support
