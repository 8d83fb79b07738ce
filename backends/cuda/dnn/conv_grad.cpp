// ConvGradInput (dy, w) and ConvGradWeight (x, dy). A gradient is a sum over photos: its engine may
// hang on the batch.
#include "backends/cuda/dnn/conv_kernel.h"
#include "backends/cuda/layout.h"

namespace ndtrain::cuda {
namespace {

using Role = Staged::Port::Role;

Plan plan_of(ndt_device& device, const AskedConv& a, bool last) {
  const PlanningHandle::Lease lease(device);
  const Numerics allowed = numerics_of(device, a);
  Layer layer{.key = key_of(a, last) + " images " + std::to_string(a.x.dims[0]),
              .graph = [&](int64_t images) { return plain_graph(a, last, images); },
              .images = a.x.dims[0],
              .chosen_by = 0,
              .allowed = allowed};
  if (a.x.dtype == NDT_F32 && allowed.tensor_cores) layer.key += " tf32";
  return choose(device, lease.handle(), layer);
}

Staged::Port port(Role role, int index, const ndt_tensor_type& t, bool last) {
  return {role, index, t, laid(t, last)};
}

AskedConv ask_input(const Node& node) {
  return ask_conv(ConvPass::kInput, node, node.out(), node.in(1), node.in(0));
}

AskedConv ask_weight(const Node& node) {
  return ask_conv(ConvPass::kWeight, node, node.in(0), node.out(), node.in(1));
}

}  // namespace

std::unique_ptr<Kernel> prepare_conv_grad_input(ndt_device& device, const Node& node) {
  const AskedConv a = ask_input(node);
  return first_layout(a, [&](bool last) {
    std::vector<Staged::Port> ports = {port(Role::kOutput, 0, a.x, last),
                                       weights_port(device, node, 1, a.w, last),
                                       port(Role::kInput, 0, a.y, last)};
    auto kernel =
        std::make_unique<Staged>(plan_of(device, a, last), std::move(ports), std::nullopt);
    kernel->packed_inputs = packed_bits(node, 1);
    return kernel;
  });
}

std::unique_ptr<Kernel> prepare_conv_grad_weight(ndt_device& device, const Node& node) {
  const AskedConv a = ask_weight(node);
  return first_layout(a, [&](bool last) {
    std::vector<Staged::Port> ports = {port(Role::kInput, 0, a.x, last),
                                       port(Role::kOutput, 0, a.w, last),
                                       port(Role::kInput, 1, a.y, last)};
    return std::make_unique<Staged>(plan_of(device, a, last), std::move(ports), std::nullopt);
  });
}

void prefer_conv_grad_input(const ndt_device&, const Node& node, ndt_tensor_type* in,
                            ndt_tensor_type* out) {
  if (!layouts_to_try(ask_input(node)).front()) unsupported("cuDNN takes f64 row-major");
  in[0] = channels_last(in[0]);
  out[0] = channels_last(out[0]);
}

void prefer_conv_grad_weight(const ndt_device&, const Node& node, ndt_tensor_type* in,
                             ndt_tensor_type*) {
  if (!layouts_to_try(ask_weight(node)).front()) unsupported("cuDNN takes f64 row-major");
  in[0] = channels_last(in[0]);
  in[1] = channels_last(in[1]);
}

}  // namespace ndtrain::cuda
