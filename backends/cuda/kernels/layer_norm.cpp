#include "backends/cuda/kernels/layer_norm.h"

#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {
namespace {

// Rows of x; `affine` are the scale and, where there is one, the bias.
LayerNorm layer_norm_of(const Node& node, const ndt_tensor_type& x,
                        const std::vector<ndt_tensor_type>& affine) {
  check_row_major(node);
  check_float(x);
  const int axis = axis_of(node, x.rank);
  LayerNorm l{.length = count(x, axis),
              .epsilon = node.f("epsilon"),
              .t = x.dtype,
              .affine = affine[0].dtype,
              .row = {},
              .affine_count = count(affine[0])};
  l.rows = l.length == 0 ? 0 : count(x) / l.length;
  std::vector<Steps> steps;
  for (int d = axis; d < x.rank; ++d) steps.push_back({x.dims[d], x.strides[d], {}});
  for (size_t k = 0; k < affine.size(); ++k) {
    check_float(affine[k]);
    if (affine[k].dtype != l.affine) unsupported("its scale and bias have two dtypes");
    const std::vector<int64_t> all = broadcast_steps(affine[k], x.rank);
    for (int d = 0; d < x.rank; ++d) {
      const int64_t step = all[static_cast<size_t>(d)];
      if (d < axis && step != 0) unsupported("scale or bias varies along dim ", d);
      if (d >= axis) steps[static_cast<size_t>(d - axis)].in[k] = step;
    }
  }
  if (!l.has_types()) {
    unsupported("its scale is ", name_of(l.affine), " where x is ", name_of(l.t));
  }
  l.row = walk(std::move(steps));
  return l;
}

}  // namespace

std::unique_ptr<Kernel> prepare_layer_norm(ndt_device&, const Node& node) {
  const bool bias = node.has(2);
  LayerNorm l = layer_norm_of(node, node.in(0), inputs_of(node, 1, bias ? 3 : 2));
  for (int k : {0, 1}) {
    if (node.has_output(1 + k)) l.statistics[k] = node.out(1 + k).dtype;
  }
  auto k = kernel([l, bias](ndt_stream& stream, const void* const* in, void* const* out, void*) {
    void* const wanted[2] = {l.statistics[0] == NDT_ABSENT ? nullptr : out[1],
                             l.statistics[1] == NDT_ABSENT ? nullptr : out[2]};
    l.forward(in[0], in[1], bias ? in[2] : nullptr, out[0], wanted, stream.stream);
  });
  k->in_place_inputs = 1;
  return k;
}

std::unique_ptr<Kernel> prepare_layer_norm_grad(ndt_device&, const Node& node) {
  const LayerNorm l = layer_norm_of(node, node.in(1), {node.in(2)});
  auto k = kernel([l](ndt_stream& stream, const void* const* in, void* const* out, void* work) {
    l.gradient(in[0], in[1], in[2], work, out[0], out[1], out[2], stream.stream);
  });
  k->workspace_bytes = l.workspace();
  return k;
}

}  // namespace ndtrain::cuda
