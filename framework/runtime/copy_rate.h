#pragma once

#include "framework/runtime/backend.h"

namespace ndtrain {

// Bytes per second between pinned host memory and the device, measured just now in large blocks.
struct CopyRates {
  double to_device = 0, from_device = 0;
};

// Zeros where the device shares the host's memory. Throws Error on a device failure.
CopyRates copy_rates(const Device& device);

}  // namespace ndtrain
