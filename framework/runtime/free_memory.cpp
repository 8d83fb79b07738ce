#include "framework/runtime/free_memory.h"

#include <algorithm>

#include "framework/core/memory.h"

namespace ndtrain {
namespace {

constexpr int64_t kNoDeviceHas = int64_t{1} << 40;
constexpr int64_t kLittle = int64_t{64} << 20;

bool has(const Device& device, int64_t bytes) {
  try {
    const DeviceBuffer taken(device, static_cast<size_t>(bytes));
    return true;
  } catch (const OutOfMemory&) {
    return false;
  }
}

}  // namespace

int64_t free_memory(const Device& device) {
  if (device.shares_host_memory()) return available_memory();
  int64_t there = 0, more = kNoDeviceHas;
  while (more - there > std::max(there / 8, kLittle)) {
    const int64_t middle = there + (more - there) / 2;
    (has(device, middle) ? there : more) = middle;
  }
  return there;
}

}  // namespace ndtrain
