// Normalisation per channel, over [N, C, plane] row-major or channels-last.
#pragma once

#include "backends/cuda/kernels/number.h"

namespace ndtrain::cuda {

struct BatchNorm {
  int64_t images = 0, channels = 0, plane = 1;
  bool last = false;          // channels-last
  int64_t affine_period = 0;  // channel c has scale and bias c % affine_period
  double epsilon = 0, momentum = 0;
  ndt_dtype t = NDT_F32, affine = NDT_F32, running = NDT_F32;

  size_t workspace() const;

  // With the statistics given; y may lie over x.
  void apply(const void* x, const void* scale, const void* bias, const void* mean, const void* var,
             void* work, void* y, cudaStream_t stream) const;

  // With those of x (population variance). new_mean and new_var, the running ones moved towards
  // them, may be null. y may lie over x.
  void train(const void* x, const void* scale, const void* bias, const void* old_mean,
             const void* old_var, void* work, void* y, void* new_mean, void* new_var,
             cudaStream_t stream) const;

  void gradient(const void* dy, const void* x, const void* scale, void* work, void* dx,
                void* dscale, void* dbias, cudaStream_t stream) const;
};

}  // namespace ndtrain::cuda
