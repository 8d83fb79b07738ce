// Rows of elements named by coordinates.
#pragma once

#include "backends/cuda/kernels/gather.h"

namespace ndtrain::cuda {

// `count` coordinates of k numbers, each of a dim of the data; `steps` count rows of the data.
struct Coordinates {
  int64_t count = 1, k = 0, per_batch = 1, batch_rows = 1;
  int64_t extents[NDT_MAX_RANK] = {}, steps[NDT_MAX_RANK] = {};
  bool wide = true;  // numbers of i64, not i32
};

// Which row each coordinate names; -1 - rows, which is none, for one outside of the data. i64.
void flatten(const Coordinates& c, int64_t rows, const void* indices, int64_t* flat,
             cudaStream_t stream);

enum class Scatter : uint8_t { kReplace, kAdd, kMul, kMin, kMax };

// out = data, then each of g.indices rows of updates onto the row of g.inner elements that `flat`
// names, in their order. `out` may be `data`. The workspace: as for sorting.
void scatter(const Gathering& g, Scatter how, ndt_dtype t, const void* data, const int64_t* flat,
             const void* updates, void* out, void* workspace, cudaStream_t stream);

}  // namespace ndtrain::cuda
