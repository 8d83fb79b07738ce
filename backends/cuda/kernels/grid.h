// Where a thread stands in the grid. For the sources of kernels only.
#pragma once

#include "backends/cuda/kernels/number.h"

namespace ndtrain::cuda {

// For grid-stride loops: `for (i = first_index(); i < n; i += all_threads())`.
NDT_DEVICE int64_t first_index() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
NDT_DEVICE int64_t all_threads() { return int64_t{gridDim.x} * blockDim.x; }

// Elements that one load or store moves.
template <typename T, int kSize>
struct alignas(kSize * sizeof(T)) Vector {
  T at[kSize];
};

// Of a load of 16 bytes.
template <typename T>
constexpr int kVectorSize = 16 / static_cast<int>(sizeof(T));

template <int kSize, typename F>
NDT_DEVICE void for_each_lane(F f) {
  NDT_UNROLL
  for (int i = 0; i < kSize; ++i) f(i);
}

}  // namespace ndtrain::cuda
