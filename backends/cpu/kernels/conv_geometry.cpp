#include "backends/cpu/kernels/conv_geometry.h"

namespace ndtrain::cpu {

bool ConvGeometry::pointwise() const {
  if (taps() != 1) return false;
  for (int d = 0; d < 3; ++d) {
    if (stride[d] != 1 || begin[d] != 0 || in[d] != out[d]) return false;
  }
  return true;
}

ConvGeometry conv_geometry(const Node& node, const ndt_tensor_type& x, const ndt_tensor_type& w,
                           const ndt_tensor_type& y) {
  const int rank = x.rank - 2;
  if (rank < 1 || rank > 3) unsupported(rank, " spatial dims; 1 to 3 are supported");
  if (w.rank != x.rank || y.rank != x.rank) invalid("x, w and y differ in rank");
  const auto strides = node.ints("strides"), dilations = node.ints("dilations"),
             pads = node.ints("pads");
  const size_t n = static_cast<size_t>(rank);
  if (strides.size() != n || dilations.size() != n || pads.size() != 2 * n) {
    invalid("strides, dilations or pads do not have the length ", rank);
  }
  ConvGeometry g;
  g.images = x.dims[0];
  g.groups = node.i("group", 1);
  if (g.groups < 1 || x.dims[1] % g.groups || w.dims[0] % g.groups || y.dims[1] != w.dims[0] ||
      y.dims[0] != x.dims[0] || x.dims[1] / g.groups != w.dims[1]) {
    invalid("channels of x, w and y do not fit ", g.groups, " groups");
  }
  g.in_channels = w.dims[1];
  g.out_channels = w.dims[0] / g.groups;
  g.in = g.kernel = g.out = g.stride = g.dilation = {1, 1, 1};
  for (int d = 0; d < rank; ++d) {
    const int s = 3 - rank + d;
    g.in[s] = x.dims[2 + d];
    g.kernel[s] = w.dims[2 + d];
    g.out[s] = y.dims[2 + d];
    g.stride[s] = strides[d];
    g.dilation[s] = dilations[d];
    g.begin[s] = pads[d];
    if (g.kernel[s] < 1 || g.stride[s] < 1 || g.dilation[s] < 1 || g.begin[s] < 0) {
      invalid("kernel, stride, dilation or pad of dim ", d, " is out of range");
    }
  }
  g.out_image_step = g.images > 1 ? y.strides[0] : g.all_out() * g.out_plane();
  return g;
}

}  // namespace ndtrain::cpu
