// Folding across the threads of a warp or a block, in an order that depends on nothing else. All of
// them call, and all get the result.
#pragma once

#include "backends/cuda/kernels/number.h"

namespace ndtrain::cuda {

inline constexpr int kLanes = 32, kBlockThreads = 256, kWarps = kBlockThreads / kLanes;

NDT_DEVICE int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
NDT_DEVICE int warp() { return static_cast<int>(threadIdx.x) / kLanes; }

// `f` does not mind which operand is which.
template <typename W, typename F>
NDT_DEVICE W fold_warp(W x, F f) {
  NDT_UNROLL
  for (int mask = kLanes / 2; mask > 0; mask /= 2) x = f(x, __shfl_xor_sync(~0u, x, mask));
  return x;
}

// In a block of kBlockThreads. `shared` is used again only after a barrier.
template <typename W, typename F>
NDT_DEVICE W fold_block(W x, F f, W (&shared)[kWarps]) {
  x = fold_warp(x, f);
  if (lane() == 0) shared[warp()] = x;
  __syncthreads();
  W result = shared[0];
  NDT_UNROLL
  for (int w = 1; w < kWarps; ++w) result = f(result, shared[w]);
  __syncthreads();
  return result;
}

struct Plus {
  template <typename W>
  NDT_DEVICE W operator()(W a, W b) const {
    return a + b;
  }
};

struct Greater {  // NaN is never the greater one
  template <typename W>
  NDT_DEVICE W operator()(W a, W b) const {
    return a > b ? a : b;
  }
};

}  // namespace ndtrain::cuda
