// Device memory that plans work in.
#pragma once

#include <algorithm>
#include <cstddef>

#include "framework/core/memory.h"
#include "framework/runtime/backend.h"

namespace ndtrain {

// Of one Executor, or of several, of which no two run at once: it is as large as the largest of
// them needs. Nothing in it outlives a run. One thread at a time.
class WorkMemory {
 public:
  explicit WorkMemory(const Device& device) : device_(device) {}

  // From now on there is so much. Throws OutOfMemory.
  void reserve(size_t bytes) {
    if (arena_.data() && arena_.bytes() >= bytes) return;
    const auto most = static_cast<uint64_t>(usable_memory());
    if (device_.shares_host_memory() && bytes > most) {
      throw OutOfMemory("a plan works in ", bytes, " bytes of memory: this process may use ", most);
    }
    arena_ = {};  // first: both need not be there at once
    arena_ = DeviceBuffer(device_, std::max<size_t>(bytes, 1));
  }
  std::byte* arena() const { return static_cast<std::byte*>(arena_.data()); }
  size_t bytes() const { return arena_.bytes(); }

 private:
  const Device& device_;
  DeviceBuffer arena_;
};

}  // namespace ndtrain
