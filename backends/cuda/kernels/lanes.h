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

// The threads that share a row: a warp or, where kWide, a whole block.
template <typename W, bool kWide>
struct Team {
  W (&shared)[kWarps];

  NDT_DEVICE static int64_t size() { return kWide ? kBlockThreads : kLanes; }
  NDT_DEVICE static int64_t self() { return first_index() % size(); }
  template <typename F>
  NDT_DEVICE W fold(W x, F f) const {
    if constexpr (kWide) return fold_block(x, f, shared);
    return fold_warp(x, f);
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

// Calls f with whether a row of this length is for a block, as a constant.
template <typename F>
void for_team(int64_t length, F f) {
  if (length > kLongRow) return f(std::true_type{});
  f(std::false_type{});
}

inline Extent rows_extent(int64_t rows, bool wide) {
  return {extent_for(rows * (wide ? kBlockThreads : kLanes)).grid, kBlockThreads};
}

}  // namespace ndtrain::cuda
