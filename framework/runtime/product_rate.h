#pragma once

#include <string>

#include "framework/runtime/backend.h"

namespace ndtrain {

// Multiplications and additions a second in a pointwise convolution from 512 to 512 channels of an
// image for each thread, the largest plain product that networks ask for: measured now, in a third
// of a second. `in`: f32, bf16, or a byte for FusedQLinearConv. 0 when the device has no kernel.
double product_rate(const Device& device, DType in);

// Why convolutions of bytes are no faster than those of f32 here; "" where they are.
std::string why_bytes_gain_nothing(const Device& device);

}  // namespace ndtrain
