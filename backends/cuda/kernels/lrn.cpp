#include "backends/cuda/kernels/lrn.h"

#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {
namespace {

Lrn lrn_of(const Node& node) {
  const ndt_tensor_type& x = node.in(0);
  check_float(x);
  Lrn l{.count = count(x),
        .channels = x.rank < 2 ? 0 : x.dims[1],
        .step = 1,
        .size = node.i("size"),
        .alpha = node.f("alpha"),
        .beta = node.f("beta"),
        .bias = node.f("bias"),
        .t = x.dtype};
  if (x.rank < 2 || l.size < 1) invalid("needs [N, C, …] and a size of at least 1");
  for (int i = 0; i < node.inputs(); ++i) {
    if (!lie_alike(node.in(i), node.out())) unsupported("its tensors do not lie alike");
  }
  if (is_row_major(x)) {
    l.step = count(x, 2);
  } else if (!is_channels_last(x)) {
    unsupported("its input is neither row-major nor channels-last");
  }
  return l;
}

}  // namespace

std::unique_ptr<Kernel> prepare_lrn(ndt_device&, const Node& node) {
  return kernel([l = lrn_of(node)](ndt_stream& stream, const void* const* in, void* const* out,
                                   void*) { l.forward(in[0], out[0], stream.stream); });
}

std::unique_ptr<Kernel> prepare_lrn_grad(ndt_device&, const Node& node) {
  const Lrn l = lrn_of(node);
  auto k = kernel([l](ndt_stream& stream, const void* const* in, void* const* out, void* work) {
    l.gradient(in[0], in[1], work, out[0], stream.stream);
  });
  k->workspace_bytes = l.workspace();
  return k;
}

}  // namespace ndtrain::cuda
