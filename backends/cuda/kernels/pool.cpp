#include "backends/cuda/kernels/pool.h"

#include <limits>

#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {
namespace {

Planes planes_of(const ndt_tensor_type& t) {
  if (t.channel_block > 1) unsupported(describe(t), " is laid out in blocks of channels");
  Planes p{.image = t.strides[0], .channel = t.strides[1]};
  for (int d = 2; d < t.rank; ++d) p.cell[3 - t.rank + d] = t.strides[d];
  return p;
}

// Positions, and what a window reaches beyond them, are to have 32 bits.
int small(int64_t extent, int64_t least) {
  if (extent < least) invalid("a kernel, stride, dilation or pad is ", extent);
  if (extent > std::numeric_limits<int>::max() / 4) unsupported("extents of ", extent);
  return static_cast<int>(extent);
}

// x or dx, and y or dy.
Pool pool_of(const Node& node, const ndt_tensor_type& x, const ndt_tensor_type& y) {
  const int rank = x.rank - 2;
  if (rank < 1 || rank > 3) unsupported(rank, " spatial dims; 1 to 3 are supported");
  const auto kernel = node.ints("kernel_shape"), strides = node.ints("strides"),
             dilations = node.ints("dilations"), pads = node.ints("pads");
  const auto n = static_cast<size_t>(rank);
  if (kernel.size() != n || strides.size() != n || dilations.size() != n || pads.size() != 2 * n) {
    invalid("kernel_shape, strides, dilations or pads do not have the length ", rank);
  }
  if (y.rank != x.rank || y.dims[0] != x.dims[0] || y.dims[1] != x.dims[1]) {
    invalid("x ", describe(x), " and y ", describe(y), " differ in planes");
  }
  Pool p{.images = x.dims[0],
         .channels = small(x.dims[1], 0),
         .x = planes_of(x),
         .y = planes_of(y),
         .t = x.dtype};
  for (size_t d = 0; d < n; ++d) {
    const size_t s = 3 - n + d;
    p.in[s] = small(x.dims[2 + d], 0);
    p.out[s] = small(y.dims[2 + d], 0);
    p.kernel[s] = small(kernel[d], 1);
    p.stride[s] = small(strides[d], 1);
    p.dilation[s] = small(dilations[d], 1);
    p.begin[s] = small(pads[d], 0);
    p.end[s] = small(pads[n + d], 0);
  }
  small(p.in_plane(), 0);
  small(p.out_plane(), 0);
  if (node.has_attr("count_include_pad")) p.count_pad = node.i("count_include_pad") != 0;
  if (node.has_attr("storage_order")) p.by_columns = node.i("storage_order") != 0;
  return p;
}

}  // namespace

std::unique_ptr<Kernel> prepare_max_pool(ndt_device&, const Node& node) {
  Pool p = pool_of(node, node.in(0), node.out());
  if (p.t != NDT_I8 && p.t != NDT_U8) check_float(node.in(0));
  const bool indices = node.has_output(1);
  if (indices) p.positions = planes_of(node.out(1));
  return kernel([=](ndt_stream& stream, const void* const* in, void* const* out, void*) {
    p.maximum(in[0], out[0], indices ? static_cast<int64_t*>(out[1]) : nullptr, stream.stream);
  });
}

std::unique_ptr<Kernel> prepare_average_pool(ndt_device&, const Node& node) {
  const Pool p = pool_of(node, node.in(0), node.out());
  check_float(node.in(0));
  return kernel([p](ndt_stream& stream, const void* const* in, void* const* out, void*) {
    p.average(in[0], out[0], stream.stream);
  });
}

std::unique_ptr<Kernel> prepare_max_pool_grad(ndt_device&, const Node& node) {
  const Pool p = pool_of(node, node.in(1), node.in(0));
  check_float(node.in(0));
  if (!lie_alike(node.in(1), node.out())) unsupported("its input and output do not lie alike");
  auto k = kernel([p](ndt_stream& stream, const void* const* in, void* const* out, void* work) {
    p.maximum_gradient(in[0], in[1], work, out[0], stream.stream);
  });
  k->workspace_bytes = static_cast<size_t>(p.outputs()) * sizeof(int32_t);
  return k;
}

std::unique_ptr<Kernel> prepare_average_pool_grad(ndt_device&, const Node& node) {
  const Pool p = pool_of(node, node.out(), node.in(0));
  check_float(node.in(0));
  return kernel([p](ndt_stream& stream, const void* const* in, void* const* out, void*) {
    p.average_gradient(in[0], out[0], stream.stream);
  });
}

}  // namespace ndtrain::cuda
