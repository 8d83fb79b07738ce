// Device memory that plans work in.
#pragma once

#include <algorithm>
#include <cstddef>

#include "framework/runtime/backend.h"

namespace ndtrain {

// Of one Executor, or of several, of which no two run at once: it is as large as the largest of
// them needs. Nothing in it outlives a run. One thread at a time.
class WorkMemory {
 public:
  explicit WorkMemory(const Device& device) : device_(device) {}

  // From now on there is so much. Throws OutOfMemory.
  void reserve(size_t arena_bytes, size_t workspace_bytes) {
    grow(arena_, arena_bytes);
    grow(workspace_, workspace_bytes);
  }
  std::byte* arena() const { return static_cast<std::byte*>(arena_.data()); }
  std::byte* workspace() const { return static_cast<std::byte*>(workspace_.data()); }
  size_t bytes() const { return arena_.bytes() + workspace_.bytes(); }

 private:
  void grow(DeviceBuffer& buffer, size_t bytes) const {
    if (buffer.data() && buffer.bytes() >= bytes) return;
    buffer = {};  // first: both need not be there at once
    buffer = DeviceBuffer(device_, std::max<size_t>(bytes, 1));
  }

  const Device& device_;
  DeviceBuffer arena_, workspace_;
};

}  // namespace ndtrain
