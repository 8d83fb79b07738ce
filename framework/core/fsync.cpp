#include "framework/core/fsync.h"

#include <atomic>
#include <cstdlib>

#include "framework/core/log.h"

namespace ndtrain {
namespace {

std::atomic<FsyncHandler> installed{nullptr};

}  // namespace

void fsync_failed(const std::string& what) {
  if (const FsyncHandler handler = installed) handler(what);
  log::error("an fsync failed, what the disk has is unknown: {}", what);
  std::_Exit(kFsyncFailedStatus);
}

FsyncHandler set_fsync_handler(FsyncHandler handler) { return installed.exchange(handler); }

}  // namespace ndtrain
