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

// 16 bits where they are faster than f32: on devices with memory of their own, and on those of the
// host's that have products of weights' gradients in that type. Others would go by way of f32, with
// twice the copies and none of the gain, so that f32 is trained there.
TrainingCompute training_compute(DType asked, const Device& device);

}  // namespace ndtrain
