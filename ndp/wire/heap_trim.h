// Gives the system back what a role's heap keeps free. A training, or a minute of many thumbnails,
// leaves free memory between what is in use, in an arena of each thread, and the C library gives
// none of it back by itself: the process would stay as large as it ever was, or grow.
#pragma once

#include <chrono>
#include <cstddef>

namespace ndtrain::ndp {

// One thread, the role's. What it does takes milliseconds.
class HeapTrim {
 public:
  using Time = std::chrono::nanoseconds;  // monotonic
  static constexpr std::chrono::seconds kEvery{30};
  static constexpr size_t kFree = size_t{16} << 20;  // bytes that may lie free

  // Whether it was time to, and enough lies free.
  bool look(Time now);

 private:
  Time next_{0};
};

}  // namespace ndtrain::ndp
