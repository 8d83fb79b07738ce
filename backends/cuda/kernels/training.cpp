#include "backends/cuda/kernels/training.h"

#include "backends/cuda/kernels/prepare.h"

namespace ndtrain::cuda {
namespace {

// The states w, g and the moments are what lies alike.
int64_t elements(const Node& node, int states) {
  check_float(node.in(0));
  for (int i = 0; i < states; ++i) {
    if (!lie_alike(node.in(i), node.out(0))) unsupported("its tensors do not lie alike");
  }
  if (node.in(states).dtype != NDT_F32) invalid("hyper-parameters are not f32");
  return count(node.out());
}

}  // namespace

std::unique_ptr<Kernel> prepare_sgd(ndt_device&, const Node& node) {
  const bool nesterov = node.i("nesterov") != 0;
  auto k = kernel([=, t = node.in(0).dtype, n = elements(node, 3)](
                      ndt_stream& stream, const void* const* in, void* const* out, void*) {
    sgd_step(t, n, nesterov, in, out, stream.stream);
  });
  k->in_place_inputs = 0b111;
  return k;
}

std::unique_ptr<Kernel> prepare_adam(ndt_device&, const Node& node) {
  const bool decoupled = node.i("decoupled") != 0;
  const int states = node.inputs() - 1;
  auto k = kernel([=, t = node.in(0).dtype, n = elements(node, states)](
                      ndt_stream& stream, const void* const* in, void* const* out, void*) {
    adam_step(t, n, states, decoupled, in, out, stream.stream);
  });
  k->in_place_inputs = (1U << states) - 1;
  return k;
}

std::unique_ptr<Kernel> prepare_rms_prop(ndt_device&, const Node& node) {
  const int states = node.inputs() - 1;
  auto k = kernel([=, t = node.in(0).dtype, n = elements(node, states)](
                      ndt_stream& stream, const void* const* in, void* const* out, void*) {
    rms_prop_step(t, n, states, in, out, stream.stream);
  });
  k->in_place_inputs = (1U << states) - 1;
  return k;
}

std::unique_ptr<Kernel> prepare_dropout_mask(ndt_device&, const Node& node) {
  check_row_major(node);
  if (node.out().dtype != NDT_F32) unsupported("a mask of ", name_of(node.out().dtype));
  const double ratio = node.f("ratio");
  const auto of_stream = static_cast<uint64_t>(node.i("stream"));
  return kernel([=, n = count(node.out())](ndt_stream& stream, const void* const* in,
                                           void* const* out, void*) {
    dropout_mask(n, ratio, of_stream, static_cast<const uint64_t*>(in[0]),
                 static_cast<float*>(out[0]), stream.stream);
  });
}

}  // namespace ndtrain::cuda
