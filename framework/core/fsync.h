// What becomes of a process whose fsync has failed. What is on the disk is unknown from then on,
// and a second fsync may succeed without having written anything: nothing is answered for any more,
// and nothing is tried again.
#pragma once

#include <string>

namespace ndtrain {

inline constexpr int kFsyncFailedStatus = 5;  // with which the process exits

using FsyncHandler = void (*)(const std::string& what);

// Calls the handler with what failed: the path, and why. Without one that was set it logs that and
// ends the process at once: no destructor runs, and nobody on the way can catch anything. Where a
// handler returns, the process ends likewise. Thread-safe.
[[noreturn]] void fsync_failed(const std::string& what);

// Returns the one before; null: the process ends. A simulator's throws what no program catches, and
// its machine dies of it. Thread-safe.
FsyncHandler set_fsync_handler(FsyncHandler handler);

}  // namespace ndtrain
