#include "backends/cpu/kernels/pool_window.h"

namespace ndtrain::cpu {

TapStage PoolWindow::row_stage() const {
  return {{out[1], in[2]}, {1, kernel[2]},   {out[1], out[2]},
          {1, stride[2]},  {1, dilation[2]}, {0, begin[2]}};
}

std::vector<float> PoolWindow::counts(bool include_pad) const {
  PoolWindow counted = *this;
  for (size_t d = 0; include_pad && d < 3; ++d) {
    counted.in[d] += begin[d] + end[d];
    counted.begin[d] = 0;
  }
  std::vector<float> counts(static_cast<size_t>(out_plane()));
  for (int64_t o = 0; o < out_plane(); ++o) {
    int64_t n = 0;
    for_cells(counted, o, [&](int64_t) { ++n; });
    counts[static_cast<size_t>(o)] = static_cast<float>(std::max<int64_t>(n, 1));
  }
  return counts;
}

PoolWindow pool_window(const Node& node, const ndt_tensor_type& x, const ndt_tensor_type& y) {
  const int rank = x.rank - 2;
  if (rank < 1 || rank > 3) unsupported(rank, " spatial dims; 1 to 3 are supported");
  const auto kernel = node.ints("kernel_shape"), strides = node.ints("strides"),
             dilations = node.ints("dilations"), pads = node.ints("pads");
  const size_t n = static_cast<size_t>(rank);
  if (kernel.size() != n || strides.size() != n || dilations.size() != n || pads.size() != 2 * n) {
    invalid("kernel_shape, strides, dilations or pads do not have the length ", rank);
  }
  if (y.rank != x.rank || count(y, 0, 2) != count(x, 0, 2)) invalid("x and y differ in planes");
  PoolWindow w;
  w.planes = count(x, 0, 2);
  w.in = w.kernel = w.out = w.stride = w.dilation = {1, 1, 1};
  for (size_t d = 0; d < n; ++d) {
    const size_t s = 3 - n + d;
    w.in[s] = x.dims[2 + d];
    w.out[s] = y.dims[2 + d];
    w.kernel[s] = kernel[d];
    w.stride[s] = strides[d];
    w.dilation[s] = dilations[d];
    w.begin[s] = pads[d];
    w.end[s] = pads[n + d];
    if (w.kernel[s] < 1 || w.stride[s] < 1 || w.dilation[s] < 1 || w.begin[s] < 0) {
      invalid("kernel, stride, dilation or pad of dim ", d, " is out of range");
    }
  }
  return w;
}

}  // namespace ndtrain::cpu
