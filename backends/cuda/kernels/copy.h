// Moving elements without looking at them.
#pragma once

#include "backends/cuda/kernels/walk.h"

namespace ndtrain::cuda {

// out[out_start + …] = in[in_start[0] + …] over `walk`, elements of 1, 2, 4 or 8 bytes. The two do
// not overlap.
void copy(const Walk& walk, int64_t element_bytes, const void* in, void* out, cudaStream_t stream);

// `n` elements of `to` become the one at `value`, or zero bytes where that is null.
void fill(void* to, int64_t n, int64_t element_bytes, const void* value, cudaStream_t stream);

// Every byte becomes `value`.
void fill_bytes(void* to, int64_t n, uint8_t value, cudaStream_t stream);

}  // namespace ndtrain::cuda
