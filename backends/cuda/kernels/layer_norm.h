// LayerNormalization of x [rows, length] and its gradient. A row's statistics are summed by one
// warp or block in an order that depends on its length alone.
#pragma once

#include "backends/cuda/kernels/walk.h"

namespace ndtrain::cuda {

struct LayerNorm {
  int64_t rows = 0, length = 0;
  double epsilon = 0;
  ndt_dtype t = NDT_F32, affine = NDT_F32;  // of x and y; of scale and bias
  // Where in scale (in[0]) and bias (in[1]) the numbers for the elements of a row are.
  Walk row;
  ndt_dtype statistics[2] = {};  // of the outputs mean and 1 / deviation; NDT_ABSENT: not wanted

  bool has_types() const;  // affine is t, or f32 and t is of 16 bits: no others have kernels

  // `bias` may be null. y may lie over x.
  void forward(const void* x, const void* scale, const void* bias, void* y,
               void* const (&wanted)[2], cudaStream_t stream) const;

  // What dscale and dbias need: two numbers per row, then parts of two sums per column.
  int64_t affine_count = 0;
  size_t workspace() const;
  void gradient(const void* dy, const void* x, const void* scale, void* work, void* dx,
                void* dscale, void* dbias, cudaStream_t stream) const;
};

}  // namespace ndtrain::cuda
