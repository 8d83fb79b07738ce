// Runs of elements named by indices.
#pragma once

#include "backends/cuda/kernels/walk.h"

namespace ndtrain::cuda {

// out[o, k, i] = in[o, indices[k], i] of [outer, extent, inner]; a negative index counts from the
// end. What an index outside of the extent names is all bits set: NaN, in floats.
struct Gathering {
  int64_t outer = 1, extent = 1, inner = 1, indices = 1;
  bool wide = true;  // indices of i64, not i32
};
void gather(const Gathering& g, int64_t element_bytes, const void* in, const void* indices,
            void* out, cudaStream_t stream);

// The gradient of that: dx[o, e, i] is the sum, in the order of k, of dy[o, k, i] where indices[k]
// names e. Indices outside of the extent are passed over. Of a short list of indices every element
// of dx reads all; a long one is sorted first, in `workspace`.
size_t gather_grad_workspace(const Gathering& g);  // bytes
void gather_grad(const Gathering& g, ndt_dtype t, const void* dy, const void* indices, void* dx,
                 void* workspace, cudaStream_t stream);

// Which indices name an element of the extent: positions [starts[e], starts[e + 1]) of `keys`,
// where the key of index k is e * indices + k. Lies in a workspace.
struct SortedIndices {
  const int64_t *keys, *starts;
};
size_t sorting_workspace(const Gathering& g);  // bytes
SortedIndices sort_indices(const Gathering& g, const void* indices, void* workspace,
                           cudaStream_t stream);

}  // namespace ndtrain::cuda
