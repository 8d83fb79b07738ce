// FusedQLinearConv: y = quantize(activation(x_scale * w_scale[c] * (sum + B[c]) + r_scale * (r -
// r_zero))), bytes in and out, channels-last. The library works in units of y_scale.
#include <cmath>

#include "backends/onednn/conv_plan.h"
#include "backends/onednn/ops.h"

namespace ndtrain::onednn {
namespace {

enum Input {
  kX,
  kXScale,
  kXZero,
  kW,
  kWScale,
  kWZero,
  kYScale,
  kYZero,
  kBias,
  kResidual,
  kRScale,
  kRZero
};
constexpr ConvPorts kPorts{.weights = kW, .bias = kBias, .residual = kResidual};

bool is_byte(ndt_dtype t) { return t == NDT_U8 || t == NDT_I8; }

void check(const Node& node) {
  if (!has_vnni()) unsupported("products of bytes need AVX512_VNNI or AVX_VNNI to be exact");
  if (!is_byte(node.in(kX).dtype) || !is_byte(node.out().dtype)) unsupported("it is not of bytes");
  if (node.in(kW).dtype != NDT_I8) unsupported("its weights are ", name_of(node.in(kW).dtype));
  node.need_constant(kW, "weight");
  if (node.constant(kResidual)) unsupported("its residual is constant");
  if (!node.has(kWZero)) return;
  for (const float zero : node.known(kWZero, "zero point of weights")) {
    if (zero != 0) unsupported("the zero point of its weights is ", zero, ", not 0");
  }
}

std::vector<float> output_scales(const Node& node, float y_scale) {
  const float x_scale = node.known_single(kXScale, "scale of x", 1);
  std::vector<float> scales = node.known(kWScale, "scale of weights");
  const auto channels = static_cast<size_t>(node.out().dims[1]);
  if (scales.size() != 1 && scales.size() != channels) {
    invalid(scales.size(), " scales for ", channels, " channels");
  }
  for (float& s : scales) s = x_scale * s / y_scale;
  return scales;
}

AskedConv asked(const Node& node) {
  check(node);
  AskedConv a = ask(node, kPorts);
  if (a.from != Layout::kLast || a.to != Layout::kLast)
    unsupported("it does not lie channels-last");
  const float y_scale = node.known_single(kYScale, "scale of y", 1);
  Finish& f = a.how.finish;
  f.scales = output_scales(node, y_scale);
  f.src_zero = static_cast<int32_t>(node.known_single(kXZero, "zero point of x", 0));
  f.dst_zero = static_cast<int32_t>(node.known_single(kYZero, "zero point of y", 0));
  if (f.sum) {
    f.sum_scale = node.known_single(kRScale, "scale of its residual", 1) / y_scale;
    f.sum_zero = static_cast<int32_t>(node.known_single(kRZero, "zero point of its residual", 0));
  }
  if (f.activation) {
    f.activation->alpha /= y_scale;
    f.activation->beta /= y_scale;
  }
  return a;
}

}  // namespace

std::unique_ptr<Kernel> prepare_conv_int8(const ndt_device& device, const Node& node) {
  return conv_kernel(device, node, asked(node));
}

void prefer_conv_int8(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  check(node);
  conv_shape(node, node.in(0), node.in(kW));
  set_layout(in[kX], Layout::kLast);
  set_layout(out[0], Layout::kLast);
  if (node.has(kResidual)) set_layout(in[kResidual], Layout::kLast);
  const ndt_node wanted = node.with(in, out);
  asked(Node(wanted)).make(1);
}

}  // namespace ndtrain::onednn
