// How much memory this process may use.
#pragma once

#include <cstdint>

namespace ndtrain {

// Bytes: the machine's, or what its control group may use where that is less. Asked once. Any
// thread.
int64_t host_memory();

}  // namespace ndtrain
