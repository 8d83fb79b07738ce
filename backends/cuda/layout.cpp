#include "backends/cuda/layout.h"

namespace ndtrain::cuda {

ndt_tensor_type row_major(const ndt_tensor_type& t) {
  ndt_tensor_type plain = t;
  plain.channel_block = 0;
  int64_t stride = 1;
  for (int d = t.rank; d-- > 0;) {
    plain.strides[d] = stride;
    stride *= t.dims[d];
  }
  return plain;
}

ndt_tensor_type channels_last(const ndt_tensor_type& t) {
  ndt_tensor_type last = row_major(t);
  if (t.rank < 3) return last;
  last.strides[1] = 1;
  int64_t stride = t.dims[1];
  for (int d = t.rank; d-- > 2;) {
    last.strides[d] = stride;
    stride *= t.dims[d];
  }
  return last;
}

bool lie_alike(const ndt_tensor_type& a, const ndt_tensor_type& b) {
  if (a.rank != b.rank || a.channel_block > 1 || b.channel_block > 1) return false;
  for (int d = 0; d < a.rank; ++d) {
    if (a.dims[d] != b.dims[d]) return false;
    if (a.dims[d] > 1 && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

bool is_row_major(const ndt_tensor_type& t) { return lie_alike(t, row_major(t)); }

bool is_channels_last(const ndt_tensor_type& t) { return lie_alike(t, channels_last(t)); }

}  // namespace ndtrain::cuda
