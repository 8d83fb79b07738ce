// Single elements of lines along an axis, named by indices.
#pragma once

#include "backends/cuda/kernels/gather_nd.h"

namespace ndtrain::cuda {

// Indices of these dims into data of the same rank; of the data, `steps` count elements.
struct ElementPlaces {
  int64_t count = 1, extent = 1, elements = 1;  // of the indices; of the data's axis, and all of it
  int rank = 0, axis = 0;
  int64_t dims[NDT_MAX_RANK] = {}, steps[NDT_MAX_RANK] = {};
  bool wide = true;  // indices of i64, not i32
};

// Which element of the data each index names; -1 - elements, which is none, for one outside.
void flatten_elements(const ElementPlaces& e, const void* indices, int64_t* flat,
                      cudaStream_t stream);

}  // namespace ndtrain::cuda
