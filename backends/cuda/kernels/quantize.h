// The scale and the zero point that hold a range of numbers in u8, 0 exactly.
#pragma once

#include "backends/cuda/kernels/number.h"

namespace ndtrain::cuda {

// range: the lowest and the highest number, not above and not below 0.
void choose_scale(const float* range, float* scale, uint8_t* zero, cudaStream_t stream);

}  // namespace ndtrain::cuda
