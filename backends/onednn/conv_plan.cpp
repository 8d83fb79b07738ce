#include "backends/onednn/conv_plan.h"

#include "backends/onednn/activation.h"
#include "backends/onednn/conv_choice.h"
#include "backends/onednn/conv_cut.h"
#include "backends/onednn/repacked.h"
#include "backends/onednn/winograd.h"

namespace ndtrain::onednn {
namespace {

// A blocked tensor of `images`, of `channels` that may reach into its padding lanes.
Desc blocked_desc(ndt_tensor_type t, int64_t channels, int64_t images) {
  t.dims[1] = channels;
  return desc_of(t, Layout::kBlocked, images);
}

}  // namespace

Convolution AskedConv::filled(int64_t images, const Desc& weights) const {
  Convolution c = how;
  c.src = from == Layout::kBlocked
              ? blocked_desc(x, shape.groups / shape.merged * shape.wide_in, images)
              : desc_of(x, from, images);
  c.dst = desc_of(y, to, images);
  c.weights = weights;
  return c;
}

PrimitivePtr AskedConv::make(int64_t images, const Desc& weights) const {
  return convolution(filled(images, weights));
}

PrimitivePtr AskedConv::make(int64_t images) const {
  return make(images, any_desc(shape.as_asked(), weights_dtype));
}

AskedConv ask(const Node& node, const ndt_tensor_type& x, const ndt_tensor_type& w,
              const ndt_tensor_type& y) {
  if (!lies(w, Layout::kPlain)) unsupported("its weights are not row-major");
  AskedConv a{.shape = conv_shape(node, x, w),
              .x = x,
              .y = y,
              .weights_dtype = w.dtype,
              .from = layout_of(x, "its images"),
              .to = layout_of(y, "what is made of them")};
  if (a.from == Layout::kBlocked) fill_blocks(a.shape);
  if (a.from == Layout::kLast && a.shape.groups > 1 && !a.shape.depthwise()) merge_groups(a.shape);
  a.how = {.strides = a.shape.strides,
           .dilations = a.shape.dilations,
           .begin = a.shape.begin,
           .end = a.shape.end};
  return a;
}

AskedConv ask(const Node& node, ConvPorts ports) {
  const ndt_tensor_type& y = node.out();
  AskedConv a = ask(node, node.in(0), node.in(ports.weights), y);
  a.ports = ports;
  a.weights_change = !node.constant(ports.weights);
  a.how.finish = {.sum = node.has(ports.residual), .activation = activation_of(node)};
  if (node.has(ports.bias)) a.how.bias = plain_desc({y.dims[1]}, node.in(ports.bias).dtype);
  if (node.has(ports.residual)) {
    const ndt_tensor_type& r = node.in(ports.residual);
    if (!lies(r, a.to)) unsupported("its residual does not lie as its output");
    if (size_of(r.dtype) != size_of(y.dtype)) {
      unsupported("its residual is ", name_of(r.dtype), ", its output ", name_of(y.dtype));
    }
    a.how.finish.sum_type = data_type(r.dtype);
  }
  return a;
}

std::shared_ptr<const Packed> weights_of(const Node& node, const AskedConv& a, const Desc& wanted) {
  const void* data = node.need_constant(a.ports.weights, "weight");
  std::vector<std::byte> wide;
  return packed_weights(
      node.constant_id(a.ports.weights), plain_desc(a.shape.as_asked(), a.weights_dtype), wanted,
      [&]() -> const void* {
        if (!a.shape.changed()) return data;
        wide = a.shape.widened(data, static_cast<size_t>(size_of(a.weights_dtype)));
        return wide.data();
      });
}

void check_changing(const AskedConv& a) {
  if (a.weights_dtype == NDT_BF16 && !has_bf16()) {
    unsupported("its weights change, and this processor has no products of bf16");
  }
  if (a.shape.changed()) unsupported("its weights change, and its channels do not fill blocks");
}

std::unique_ptr<Kernel> kernel_with_weights(const Node& node, const AskedConv& a,
                                            const Desc& wanted, Sliced::Plan plan) {
  using Role = Sliced::Port::Role;
  const auto port = plan.ports.begin() + 1;
  if (a.weights_change) {
    plan.fixed = true;  // sizes take the weights alike, and sums may depend on them
    plan.cut = {};
    plan.ports.insert(port, {Role::kInput, a.ports.weights});
    return std::make_unique<Repacked>(std::make_unique<Sliced>(std::move(plan)), node.inputs(),
                                      a.ports.weights,
                                      plain_desc(a.shape.as_asked(), a.weights_dtype), wanted);
  }
  const auto weights = weights_of(node, a, wanted);
  plan.ports.insert(port, {Role::kFixed, 0, 0, weights->data()});
  plan.keep.push_back(weights);
  auto kernel = std::make_unique<Sliced>(std::move(plan));
  kernel->packed_inputs = uint64_t{1} << a.ports.weights;
  return kernel;
}

std::unique_ptr<Kernel> conv_kernel(const ndt_device& device, const Node& node, AskedConv a) {
  const bool residual = node.has(a.ports.residual);
  if (residual) input_port(a.ports.residual, node.in(a.ports.residual), a.to);  // without gaps
  if (takes_winograd(device, a)) {
    const int weights = a.ports.weights;
    return std::make_unique<Winograd>(
        a,
        WinogradWeights{.plain = plain_desc(a.shape.as_asked(), a.weights_dtype),
                        .data = node.constant(weights),
                        .id = node.constant_id(weights)},
        a.x.dims[0], threads());
  }
  const DirectForm chosen = direct_form(a);
  Sliced::Plan plan{.images = a.x.dims[0], .sizes = chosen.sizes};
  plan.make = [=](int64_t images) { return a.make(images, chosen.weights); };
  plan.cut = [=, images = chosen.sizes.front()](int64_t n) {
    return cut_image(a, chosen.weights, images, n);
  };
  plan.ports.push_back(input_port(0, a.x, a.from));
  if (a.how.bias) plan.ports.push_back({Sliced::Port::Role::kInput, a.ports.bias});
  set_output(plan, a.y, a.to);
  if (residual) {
    plan.residual = a.ports.residual;
    plan.residual_step = input_port(plan.residual, node.in(plan.residual), a.to).step;
  }
  auto kernel = kernel_with_weights(node, a, chosen.weights, std::move(plan));
  if (residual) kernel->in_place_inputs = uint64_t{1} << a.ports.residual;
  return kernel;
}

}  // namespace ndtrain::onednn
