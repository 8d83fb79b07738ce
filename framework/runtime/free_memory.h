#pragma once

#include <cstdint>

#include "framework/runtime/backend.h"

namespace ndtrain {

// Bytes that may be taken of the memory in which the device computes: of the host's, where it
// shares that, as available_memory() has it; else what one allocation can have now, less at most an
// eighth or 64 MiB, found by trying, which takes it from others for that moment. Throws Error where
// the device fails otherwise.
int64_t free_memory(const Device& device);

}  // namespace ndtrain
