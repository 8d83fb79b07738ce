#include "backends/cuda/kernels/batch_norm.h"

#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {
namespace {

// Of x and what lies as it does.
BatchNorm batch_norm_of(const Node& node, const ndt_tensor_type& x,
                        const std::vector<ndt_tensor_type>& alike) {
  check_float(x);
  if (x.rank < 2) invalid("needs [N, C, …], not ", describe(x));
  BatchNorm b{.images = x.dims[0],
              .channels = x.dims[1],
              .plane = count(x, 2),
              .last = !is_row_major(x),
              .affine_period = x.dims[1],
              .epsilon = node.f("epsilon"),
              .t = x.dtype};
  if (b.last && !is_channels_last(x))
    unsupported("its input is neither row-major nor channels-last");
  for (const ndt_tensor_type& t : alike) {
    if (!lie_alike(x, t)) unsupported("its tensors do not lie alike");
  }
  return b;
}

}  // namespace

std::unique_ptr<Kernel> prepare_batch_norm(ndt_device&, const Node& node) {
  BatchNorm b = batch_norm_of(node, node.in(0), {node.out()});
  for (int i = 1; i < 5; ++i) {
    check_float(node.in(i));
    if (count(node.in(i)) != b.channels) invalid("input ", i, " is not one value per channel");
  }
  b.momentum = node.f("momentum");
  b.affine = node.in(1).dtype;
  b.running = node.in(3).dtype;
  const bool training = node.i("training_mode") != 0;
  const bool mean = node.has_output(1), var = node.has_output(2);
  auto k = kernel([=](ndt_stream& stream, const void* const* in, void* const* out, void* work) {
    if (training) {
      b.train(in[0], in[1], in[2], in[3], in[4], work, out[0], mean ? out[1] : nullptr,
              var ? out[2] : nullptr, stream.stream);
    } else {
      b.apply(in[0], in[1], in[2], in[3], in[4], work, out[0], stream.stream);
    }
  });
  k->workspace_bytes = b.workspace();
  k->in_place_inputs = 1;
  return k;
}

std::unique_ptr<Kernel> prepare_batch_norm_grad(ndt_device&, const Node& node) {
  BatchNorm b = batch_norm_of(node, node.in(1), {node.in(0), node.out()});
  check_float(node.in(2));
  b.affine = node.in(2).dtype;
  auto k = kernel([b](ndt_stream& stream, const void* const* in, void* const* out, void* work) {
    b.gradient(in[0], in[1], in[2], work, out[0], out[1], out[2], stream.stream);
  });
  k->workspace_bytes = b.workspace();
  return k;
}

// Every plane is a channel.
std::unique_ptr<Kernel> prepare_instance_norm(ndt_device&, const Node& node) {
  check_row_major(node);
  BatchNorm b = batch_norm_of(node, node.in(0), {node.out()});
  b.channels *= b.images;
  b.images = 1;
  b.affine = node.in(1).dtype;
  auto k = kernel([b](ndt_stream& stream, const void* const* in, void* const* out, void* work) {
    b.train(in[0], in[1], in[2], nullptr, nullptr, work, out[0], nullptr, nullptr, stream.stream);
  });
  k->workspace_bytes = b.workspace();
  k->in_place_inputs = 1;
  return k;
}

}  // namespace ndtrain::cuda
