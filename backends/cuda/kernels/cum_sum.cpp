#include "backends/cuda/kernels/cum_sum.h"

#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {

std::unique_ptr<Kernel> prepare_cum_sum(ndt_device&, const Node& node) {
  check_row_major(node);
  const ndt_tensor_type& x = node.in(0);
  int64_t axis = known_ints(node, 1, "the axis").at(0);
  if (axis < -x.rank || axis >= x.rank) invalid("axis ", axis, " of rank ", x.rank);
  if (axis < 0) axis += x.rank;
  CumSum s{
      .n = x.dims[axis], .exclusive = node.i("exclusive") != 0, .reverse = node.i("reverse") != 0};
  for (int d = 0; d < x.rank; ++d) {
    if (d < axis) s.outer *= x.dims[d];
    if (d > axis) s.inner *= x.dims[d];
  }
  auto k = kernel([s, t = x.dtype](ndt_stream& stream, const void* const* in, void* const* out,
                                   void*) { cum_sum(s, t, in[0], out[0], stream.stream); });
  k->in_place_inputs = 1;
  return k;
}

}  // namespace ndtrain::cuda
