// Sums along an axis, up to each element.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/number.h"

namespace ndtrain::cuda {

// y[o, k, i] is the sum of x[o, 0 … k, i] of [outer, n, inner]; without x[o, k, i] when exclusive;
// of x[o, k … n - 1, i] when reverse. `y` may be `x`.
struct CumSum {
  int64_t outer = 1, n = 1, inner = 1;
  bool exclusive = false, reverse = false;
};
void cum_sum(const CumSum& s, ndt_dtype t, const void* x, void* y, cudaStream_t stream);

}  // namespace ndtrain::cuda
