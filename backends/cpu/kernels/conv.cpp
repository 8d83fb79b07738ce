// Conv, and FusedConv: + residual, then a clamp.
#include "backends/cpu/gemm/packed_constant.h"
#include "backends/cpu/kernels/by_way_of.h"
#include "backends/cpu/kernels/conv_depthwise.h"
#include "backends/cpu/kernels/conv_plain.h"
#include "backends/cpu/kernels/conv_product.h"
#include "backends/cpu/kernels/plain_loops.h"
#include "backends/plugin/clamp.h"

namespace ndtrain::cpu {
namespace {

Activation activation_of(const Node& node) {
  const std::string_view steps = node.s("steps", "");
  if (node.has_attr("pool_kernel_shape")) unsupported("a pool behind it");
  const std::optional<plugin::Clamp> clamp = plugin::clamp_of(steps);
  if (!clamp) unsupported("steps '", steps, "'");
  if (!steps.empty()) return {true, clamp->low, clamp->high};
  return {};
}

Epilogue epilogue_of(const Activation& a, const float* bias, const float* residual) {
  return {.row_bias = bias,
          .residual = residual,
          .clamp = a.clamp,
          .low = static_cast<float>(a.low),
          .high = static_cast<float>(a.high)};
}

template <typename T>
const T* optional(const void* const* in, bool has, int i) {
  return has ? as<T>(in[i]) : nullptr;
}

class ProductConv final : public Kernel {
 public:
  ProductConv(const Node& node, const ConvGeometry& g)
      : conv_(conv_product(g, threads(), node.less_memory())),
        activation_(activation_of(node)),
        bias_(node.has(2)),
        residual_(node.has(3)) {
    const size_t packed = conv_->packed_floats() * sizeof(float);
    workspace_bytes = conv_->scratch_floats() * sizeof(float);
    if (const void* w = node.constant(1)) {
      packed_ = packed_constant(node.constant_id(1), conv_->layout(), packed,
                                [&](void* to) { conv_->pack(as<float>(w), as<float>(to)); });
      packed_inputs = 1 << 1;
    } else {
      workspace_bytes += packed;
    }
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    float* const scratch = as<float>(workspace);
    const float* packed = as<float>(static_cast<const void*>(packed_.get()));
    if (!packed) {
      float* const to = scratch + conv_->scratch_floats();
      conv_->pack(as<float>(in[1]), to);
      packed = to;
    }
    conv_->run(
        packed, as<float>(in[0]), as<float>(out[0]),
        epilogue_of(activation_, optional<float>(in, bias_, 2), optional<float>(in, residual_, 3)),
        scratch);
  }

 private:
  std::unique_ptr<ConvProduct> conv_;
  Activation activation_;
  bool bias_, residual_;
  std::shared_ptr<const std::byte[]> packed_;
};

class DepthwiseConv final : public Kernel {
 public:
  DepthwiseConv(const Node& node, const ConvGeometry& g)
      : conv_(g, threads()),
        activation_(activation_of(node)),
        bias_(node.has(2)),
        residual_(node.has(3)) {
    workspace_bytes = conv_.scratch_floats() * sizeof(float);
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    conv_.run(
        as<float>(in[1]), as<float>(in[0]), as<float>(out[0]),
        epilogue_of(activation_, optional<float>(in, bias_, 2), optional<float>(in, residual_, 3)),
        as<float>(workspace));
  }

 private:
  ConvDepthwise conv_;
  Activation activation_;
  bool bias_, residual_;
};

template <typename T>
std::unique_ptr<Kernel> plain_conv(const Node& node, const ConvGeometry& g) {
  return kernel([g, activation = activation_of(node), bias = node.has(2), residual = node.has(3)](
                    const void* const* in, void* const* out, void*) {
    conv_plain<T>(g, as<T>(in[0]), as<T>(in[1]), optional<T>(in, bias, 2),
                  optional<T>(in, residual, 3), activation, as<T>(out[0]));
  });
}

std::unique_ptr<Kernel> make_conv(const Node& node) {
  if (is_half(node.in(0).dtype)) return by_way_of_f32(node, make_conv);
  const ConvGeometry g = conv_geometry(node, node.in(0), node.in(1), node.out());
  for (int i = 0; i < node.inputs(); ++i) {
    if (node.has(i) && node.in(i).dtype != node.in(0).dtype) unsupported("mixed dtypes");
  }
  if (node.has(2) && count(node.in(2)) != g.all_out()) invalid("bias is not one per channel");
  if (node.has(3) && count(node.in(3)) != count(node.out())) invalid("residual is not like y");
  // A residual is laid out like y.
  const bool plain = node.in(0).dtype != NDT_F32 || !g.flat();
  if (g.gaps() && (plain || node.has(3))) unsupported("gaps in the output");
  if (plain) {
    if (node.in(0).dtype != NDT_F32 && node.in(0).dtype != NDT_F64) unsupported("no such dtype");
    if (node.in(0).dtype == NDT_F32) return plain_conv<float>(node, g);
    say_plain_loops(node);
    return plain_conv<double>(node, g);
  }
  if (g.in_channels == 1 && g.groups > 1) return std::make_unique<DepthwiseConv>(node, g);
  return std::make_unique<ProductConv>(node, g);
}

const Registered registered{
    {"Conv", make_conv, Trait::kGapped},
    {"FusedConv", make_conv, Trait::kGapped},
};

}  // namespace
}  // namespace ndtrain::cpu
