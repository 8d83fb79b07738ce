#pragma once

#include "framework/core/status.h"

namespace ndtrain::ndp {

// From here on this thread, and those that it begins, reach no file, no TCP port, and no process
// and abstract socket of others, as far as the kernel's Landlock knows these, whose version is
// returned. For good; what is open stays so. It wants PR_SET_NO_NEW_PRIVS. kUnsupported: a kernel
// without it (before 5.13, or built or started so).
Result<int> reach_no_files();

}  // namespace ndtrain::ndp
