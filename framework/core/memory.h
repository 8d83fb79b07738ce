// Memory of the machine.
#pragma once

#include <cstdint>

namespace ndtrain {

// Bytes that programs can still take without others having to give theirs up, as the kernel
// reckons (/proc/meminfo's MemAvailable); 0 where it does not say.
int64_t available_memory();

// Bytes that this process may use at all: the machine's, or its control group's where those are
// fewer. Asked once. Any thread.
int64_t usable_memory();

}  // namespace ndtrain
