#pragma once

#include "framework/core/status.h"

namespace ndtrain::ndp {

// From here on this process computes, reads and writes one socket, and can do nothing else: what a
// decoder of photos needs of the kernel, memory that holds no code, threads of this process, locks
// and clocks, is allowed; what libraries ask without need (writing to other files, prctl) is
// refused; anything else, opening a file, making a socket, starting a process, ends the process by
// SIGSYS. For all threads, and for good. It wants PR_SET_NO_NEW_PRIVS. kUnsupported: the kernel, or
// this build's architecture, has no such filter.
Status filter_syscalls(int socket);

}  // namespace ndtrain::ndp
