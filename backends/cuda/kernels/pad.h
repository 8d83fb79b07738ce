// Pad: a border around a tensor, of one number or continued from inside.
#pragma once

#include "backends/cuda/kernels/walk.h"

namespace ndtrain::cuda {

enum class Border { kConstant, kEdge, kReflect, kWrap };

// Padding: dim d of the output begins `before` elements ahead of the input (behind its first, where
// negative).
struct Padding {
  struct Dim {
    Divisor extent;                                      // of the output
    int64_t in_extent = 0, before = 0, out = 0, in = 0;  // steps
  };
  int64_t count = 1;
  int rank = 0;
  Dim dims[NDT_MAX_RANK];
  Border border = Border::kConstant;
};
void pad(const Padding& p, int64_t element_bytes, const void* in, const void* value, void* out,
         cudaStream_t stream);

}  // namespace ndtrain::cuda
