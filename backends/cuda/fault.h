// What a kernel found wrong with the numbers it was given: it writes it to memory of the host that
// the device sees, and the next stream_wait() tells.
#pragma once

#include <cstdint>

namespace ndtrain::cuda {

// A label that is none of the classes, in the first such row. The first kernel's stays.
struct Fault {
  int64_t is_set = 0, label = 0, row = 0, classes = 0;
};

}  // namespace ndtrain::cuda
