#include "backends/cuda/kernels/interpolate.h"

#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {

std::unique_ptr<Kernel> prepare_interpolate(ndt_device&, const Node& node) {
  check_row_major(node);
  const ndt_tensor_type& x = node.in(0);
  check_float(x);
  const int axis = axis_of(node, x.rank);
  Interpolation p{.extent = x.dims[axis], .places = node.in(1).dims[0], .taps = node.in(1).dims[1]};
  for (int d = 0; d < x.rank; ++d) {
    if (d < axis) p.outer *= x.dims[d];
    if (d > axis) p.inner *= x.dims[d];
  }
  for (const int64_t i : known_ints(node, 1, "indices")) {
    if (i < 0 || i >= p.extent) invalid("index ", i, " is not in an axis of ", p.extent);
  }
  return kernel(
      [p, t = x.dtype](ndt_stream& stream, const void* const* in, void* const* out, void*) {
        interpolate(p, t, in[0], in[1], in[2], out[0], stream.stream);
      });
}

}  // namespace ndtrain::cuda
