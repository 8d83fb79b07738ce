// Local response normalisation across channels, over [N, C, plane] row-major or channels-last.
#pragma once

#include "backends/cuda/kernels/number.h"

namespace ndtrain::cuda {

struct Lrn {
  int64_t count = 0, channels = 1;
  int64_t step = 1;  // from a channel to the next
  int64_t size = 1;
  double alpha = 0, beta = 0, bias = 0;
  ndt_dtype t = NDT_F32;

  void forward(const void* x, void* y, cudaStream_t stream) const;

  size_t workspace() const { return static_cast<size_t>(2 * count) * (t == NDT_F64 ? 8 : 4); }
  void gradient(const void* dy, const void* x, void* work, void* dx, cudaStream_t stream) const;
};

}  // namespace ndtrain::cuda
