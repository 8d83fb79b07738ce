// Photos as they leave the decoder, made the input of a model.
#pragma once

#include "backends/cuda/kernels/number.h"

namespace ndtrain::cuda {

// y = (x / 255 - mean) / deviation in f32, in that order, then rounded to `t`. x: u8 [photos,
// pixels, 3]; y the same, or [photos, 3, pixels] where `planar`.
struct Photos {
  int64_t photos = 0, pixels = 0;
  bool planar = false;
  ndt_dtype t = NDT_F32;

  void normalise(const uint8_t* x, const float* mean, const float* deviation, void* y,
                 cudaStream_t stream) const;
};

}  // namespace ndtrain::cuda
