// Sums of a few places along an axis.
#pragma once

#include "backends/cuda/kernels/walk.h"

namespace ndtrain::cuda {

// out[o, p, i] = sum over k of weights[p, k] * in[o, from[p, k], i] of [outer, extent, inner], in
// the order of k. `from` is i64, inside the extent; weights are f64 beside f64, else f32.
struct Interpolation {
  int64_t outer = 1, extent = 1, inner = 1, places = 1, taps = 1;
};
void interpolate(const Interpolation& p, ndt_dtype t, const void* in, const void* from,
                 const void* weights, void* out, cudaStream_t stream);

}  // namespace ndtrain::cuda
