#pragma once

#include <string>

#include "framework/core/dtype.h"
#include "framework/runtime/backend.h"

namespace ndtrain {

// What TrainerConfig::compute is to be where `asked` was asked for, and why it is not that, for
// people; "" when it is.
struct TrainingCompute {
  DType dtype;
  std::string why = {};
};

// No backend of the host's memory has kernels of 16 bits for the backward pass: they would go by
// way of f32, with twice the copies and none of the gain, so that f32 is trained there.
TrainingCompute training_compute(DType asked, const Device& device);

}  // namespace ndtrain
