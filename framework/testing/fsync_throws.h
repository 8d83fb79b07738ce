// In place of the end of the process, for tests that go on with what a disk has kept.
#pragma once

#include <string>

#include "framework/core/fsync.h"

namespace ndtrain {

// No std::exception: who answers for those does not take it.
struct FsyncFailed {
  std::string what;
};

// While it lives, an fsync that fails throws FsyncFailed.
class FsyncThrows {
 public:
  FsyncThrows() : before_(set_fsync_handler([](const std::string& w) { throw FsyncFailed{w}; })) {}
  ~FsyncThrows() { set_fsync_handler(before_); }
  FsyncThrows(const FsyncThrows&) = delete;
  FsyncThrows& operator=(const FsyncThrows&) = delete;

 private:
  const FsyncHandler before_;
};

}  // namespace ndtrain
