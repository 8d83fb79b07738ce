// Folding across the threads of a warp or a block, in an order that depends on nothing else. All of
// them call, and all get the result.
#pragma once

#include "backends/cuda/kernels/grid.h"

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

// Longer ones are folded by a whole block.
inline constexpr int64_t kLongRow = 1024;

// The threads that share a row: a warp or, where `wide`, a whole block.
template <typename W>
struct Team {
  W (&shared)[kWarps];
  bool wide;

  NDT_DEVICE int size() const { return wide ? kBlockThreads : kLanes; }
  NDT_DEVICE int self() const { return static_cast<int>(threadIdx.x) % size(); }
  NDT_DEVICE int64_t first_row() const { return first_index() / size(); }
  NDT_DEVICE int64_t teams() const { return all_threads() / size(); }
  template <typename F>
  NDT_DEVICE W fold(W x, F f) const {
    return wide ? fold_block(x, f, shared) : fold_warp(x, f);
  }
  template <typename F>
  NDT_DEVICE W sum(int64_t n, F term) const {
    W x = 0;
    for (int64_t i = self(); i < n; i += size()) x += term(i);
    return fold(x, Plus{});
  }
  template <typename F>
  NDT_DEVICE W highest(int64_t n, F term) const {
    W x = -W(INFINITY);
    for (int64_t i = self(); i < n; i += size()) x = Greater{}(x, term(i));
    return fold(x, Greater{});
  }
  template <typename F>
  NDT_DEVICE void each(int64_t n, F f) const {
    for (int64_t i = self(); i < n; i += size()) f(i);
  }
};

__host__ NDT_DEVICE bool wide_for(int64_t length) { return length > kLongRow; }

inline Extent rows_extent(int64_t rows, int64_t length) {
  const int64_t threads = wide_for(length) ? kBlockThreads : kLanes;
  return {extent_for(rows * threads).grid, kBlockThreads};
}

}  // namespace ndtrain::cuda
