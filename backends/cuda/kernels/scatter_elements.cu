#include "backends/cuda/kernels/grid.h"
#include "backends/cuda/kernels/scatter_elements.h"

namespace ndtrain::cuda {
namespace {

__global__ void flattened_elements(ElementPlaces e, const void* indices, int64_t* flat) {
  for (int64_t i = first_index(); i < e.count; i += all_threads()) {
    const int64_t named =
        e.wide ? static_cast<const int64_t*>(indices)[i] : static_cast<const int32_t*>(indices)[i];
    const int64_t v = named < 0 ? named + e.extent : named;
    int64_t at = v * e.steps[e.axis], rest = i;
    for (int d = e.rank - 1; d >= 0; --d) {
      const int64_t next = rest / e.dims[d];
      if (d != e.axis) at += (rest - next * e.dims[d]) * e.steps[d];
      rest = next;
    }
    flat[i] = v >= 0 && v < e.extent ? at : -1 - e.elements;
  }
}

}  // namespace

void flatten_elements(const ElementPlaces& e, const void* indices, int64_t* flat,
                      cudaStream_t stream) {
  if (e.count > 0) launch(flattened_elements, extent_for(e.count), stream, e, indices, flat);
}

}  // namespace ndtrain::cuda
