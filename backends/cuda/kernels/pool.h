// Windows that slide over the planes of [N, C, …], and the gradients of their maximum and average.
// Any layouts.
#pragma once

#include "backends/cuda/kernels/walk.h"

namespace ndtrain::cuda {

// Where a tensor [N, C, three spatial dims] lies: steps in elements.
struct Planes {
  int64_t image = 0, channel = 0, cell[3] = {};
};

struct Pool {
  int64_t images = 0;
  int channels = 0;
  int in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1},
      dilation[3] = {1, 1, 1}, begin[3] = {}, end[3] = {};
  bool count_pad = false, by_columns = false;
  Planes x, y;       // of x or dx, and of y or dy
  Planes positions;  // of the indices
  ndt_dtype t = NDT_F32;

  __host__ NDT_DEVICE int64_t in_plane() const { return int64_t{in[0]} * in[1] * in[2]; }
  int64_t out_plane() const { return int64_t{out[0]} * out[1] * out[2]; }
  int64_t outputs() const { return images * channels * out_plane(); }
  int64_t inputs() const { return images * channels * in_plane(); }

  // `indices`, or null: flat positions of the maxima in a row-major x.
  void maximum(const void* data, void* to, int64_t* indices, cudaStream_t stream) const;
  void average(const void* data, void* to, cudaStream_t stream) const;

  // `work`: 4 bytes for each of outputs(), for the gradient of the maximum.
  void maximum_gradient(const void* dy, const void* data, void* work, void* dx,
                        cudaStream_t stream) const;
  void average_gradient(const void* dy, void* dx, cudaStream_t stream) const;
};

}  // namespace ndtrain::cuda
