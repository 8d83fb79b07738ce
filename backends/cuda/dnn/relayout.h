// Copies between layouts, and what a convolution still lacks when cuDNN did only its products.
// C++17: kernels are compiled by nvcc.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ndtrain::cuda {

// How a tensor is walked: `dims` from the outermost to the innermost of what is written, strides in
// elements.
struct StridedCopy {
  static constexpr int kMostDims = 6;
  int rank = 0;
  int element_bytes = 4;  // 1, 2, 4 or 8
  int64_t dims[kMostDims] = {}, to[kMostDims] = {}, from[kMostDims] = {};
};

void copy_strided(const StridedCopy& copy, const void* from, void* to, cudaStream_t stream);

// y = max(low, min(high, y + bias[channel] + residual)), in place, computed in f32 (f64 for f64).
struct ConvFinish {
  enum Type { kF32, kF16, kBF16, kF64 };
  Type type = kF32, bias_type = kF32;  // of y and residual; of bias: the same, or f32
  int64_t elements = 0, channels = 1;
  int64_t inner = 1;  // elements of one channel that lie together
  double low = 0, high = 0;
};

void finish(const ConvFinish& f, void* y, const void* bias, const void* residual,
            cudaStream_t stream);

}  // namespace ndtrain::cuda
