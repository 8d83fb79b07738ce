#include "backends/cuda/kernels/gather.h"

#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {
namespace {

// x of these dims, indices of input 1.
Gathering gathering_of(const Node& node, std::span<const int64_t> x) {
  check_row_major(node);
  const int axis = axis_of(node, static_cast<int>(x.size()));
  Gathering g{.extent = x[static_cast<size_t>(axis)], .indices = count(node.in(1))};
  for (int d = 0; d < static_cast<int>(x.size()); ++d) {
    if (d < axis) g.outer *= x[static_cast<size_t>(d)];
    if (d > axis) g.inner *= x[static_cast<size_t>(d)];
  }
  const ndt_dtype t = node.in(1).dtype;
  if (t != NDT_I64 && t != NDT_I32) unsupported("indices of ", name_of(t));
  g.wide = t == NDT_I64;
  if (!node.constant(1)) return g;
  for (const int64_t i : known_ints(node, 1, "indices")) {
    if (i < -g.extent || i >= g.extent) invalid("index ", i, " is not in an axis of ", g.extent);
  }
  return g;
}

}  // namespace

std::unique_ptr<Kernel> prepare_gather(ndt_device&, const Node& node) {
  const ndt_tensor_type& x = node.in(0);
  const Gathering g = gathering_of(node, {x.dims, static_cast<size_t>(x.rank)});
  return kernel([g, bytes = size_of(x.dtype)](ndt_stream& stream, const void* const* in,
                                              void* const* out, void*) {
    gather(g, bytes, in[0], in[1], out[0], stream.stream);
  });
}

std::unique_ptr<Kernel> prepare_gather_grad(ndt_device&, const Node& node) {
  const ndt_dtype t = node.in(0).dtype;
  check_float(node.in(0));
  const Gathering g = gathering_of(node, node.ints("input_shape"));
  auto k =
      kernel([g, t](ndt_stream& stream, const void* const* in, void* const* out, void* workspace) {
        gather_grad(g, t, in[0], in[1], out[0], workspace, stream.stream);
      });
  k->workspace_bytes = gather_grad_workspace(g);
  return k;
}

}  // namespace ndtrain::cuda
