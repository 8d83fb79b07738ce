// QLinearConv, and FusedQLinearConv: plus a residual, within limits. Sums of products of
// bytes are made by the packed f32 product, which is exact as long as they stay below 2^24, and
// rounds no more than the f32 that they are scaled in where they do not.
#include "backends/cpu/gemm/packed_constant.h"
#include "backends/cpu/kernels/conv_depthwise.h"
#include "backends/cpu/kernels/conv_gemm.h"
#include "backends/cpu/kernels/quantize.h"
#include "backends/cpu/kernels/sizes.h"
#include "backends/plugin/clamp.h"

namespace ndtrain::cpu {
namespace {

enum Port { kX, kXScale, kXZero, kW, kWScale, kWZero, kYScale, kYZero, kBias, kR, kRScale, kRZero };

template <typename Q>
void less_zero(const void* from, int32_t zero, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(as<Q>(from)[i] - zero);
}

void less_zero(const void* from, ndt_dtype t, int32_t zero, int64_t n, float* to) {
  t == NDT_I8 ? less_zero<int8_t>(from, zero, n, to) : less_zero<uint8_t>(from, zero, n, to);
}

// The sums as f32, over x and w without their zero points.
class Sums {
 public:
  explicit Sums(const ConvGeometry& g) : g_(g) {
    if (g.in_channels == 1 && g.groups > 1) {
      depthwise_ = std::make_unique<ConvDepthwise>(g, threads());
    } else {
      product_ = std::make_unique<ConvGemm>(g, threads());
    }
  }
  std::string layout() const { return depthwise_ ? "bytes" : "bytes " + product_->layout(); }
  size_t scratch_floats() const {
    return depthwise_ ? depthwise_->scratch_floats() : product_->scratch_floats();
  }
  size_t packed_floats() const {
    return depthwise_ ? static_cast<size_t>(g_.all_out() * g_.terms()) : product_->packed_floats();
  }
  void pack(const float* w, float* to) const {
    if (depthwise_) {
      std::copy_n(w, packed_floats(), to);
    } else {
      product_->pack(w, to);
    }
  }
  void run(const float* packed, const float* x, float* y, float* scratch) const {
    depthwise_ ? depthwise_->run(packed, x, y, {}, scratch)
               : product_->run(packed, x, y, {}, scratch);
  }

 private:
  ConvGeometry g_;
  std::unique_ptr<ConvGemm> product_;
  std::unique_ptr<ConvDepthwise> depthwise_;
};

class QuantizedConv final : public Kernel {
 public:
  QuantizedConv(const Node& node, const ConvGeometry& g)
      : g_(g), sums_(g), x_(node.in(kX).dtype), w_(node.in(kW).dtype), y_(node.out().dtype) {
    for (int i = kXScale; i <= kRZero; ++i) {
      if (i != kW && i != kBias && i != kR) ports_[i] = PerIndex(node, i);
    }
    has_bias_ = node.has(kBias);
    if (node.has(kR)) {
      r_ = node.in(kR).dtype;
      if (count(node.in(kR)) != count(node.out())) invalid("residual is not like y");
      if (ports_[kRScale].port < 0) invalid("the residual has no scale");
    }
    if (has_bias_ && count(node.in(kBias)) != g.all_out()) invalid("bias is not one per channel");
    read_limits(node);
    weights_ = g.all_out() * g.terms();
    const bool constant = node.constant(kW) && (!node.has(kWZero) || node.constant(kWZero));
    if (constant) pack_now(node);
    plan_workspace(constant);
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    float* const ws = as<float>(workspace);
    const float* packed = as<float>(static_cast<const void*>(packed_.get()));
    if (!packed) {
      widen_weights(in[kW], in, ws + weights_at_);
      sums_.pack(ws + weights_at_, ws + packed_at_);
      packed = ws + packed_at_;
    }
    const int64_t n = g_.images * g_.all_in() * g_.in_plane();
    const int32_t zero = ports_[kXZero].zero(in, 0);
    parallel_for(n, kElementGrain, [&](int64_t begin, int64_t end) {
      less_zero(as<std::byte>(in[kX]) + begin, x_, zero, end - begin, ws + begin);
    });
    sums_.run(packed, ws, ws + sums_at_, ws + scratch_at_);
    for_byte(y_, [&]<typename Y>() {
      for_byte(r_ == NDT_ABSENT ? NDT_U8 : r_,
               [&]<typename R>() { finish<R, Y>(in, ws + sums_at_, as<Y>(out[0])); });
    });
  }

 private:
  void read_limits(const Node& node) {
    const std::string_view steps = node.s("steps", "");
    const std::optional<plugin::Clamp> clamp = plugin::clamp_of(steps);
    if (!clamp) unsupported("steps '", steps, "'");
    low_ = static_cast<float>(clamp->low);
    high_ = static_cast<float>(clamp->high);
  }

  void widen_weights(const void* w, const void* const* in, float* to) const {
    for (int64_t m = 0; m < g_.all_out(); ++m) {
      less_zero(as<std::byte>(w) + m * g_.terms(), w_, ports_[kWZero].zero(in, m), g_.terms(),
                to + m * g_.terms());
    }
  }

  void pack_now(const Node& node) {
    const void* in[kRZero + 1] = {};
    in[kWZero] = node.constant(kWZero);
    std::ostringstream layout;
    layout << sums_.layout() << " less " << node.constant_id(kWZero);
    packed_ = packed_constant(node.constant_id(kW), layout.str(),
                              sums_.packed_floats() * sizeof(float), [&](void* to) {
                                std::vector<float> w(static_cast<size_t>(weights_));
                                widen_weights(node.constant(kW), in, w.data());
                                sums_.pack(w.data(), as<float>(to));
                              });
    packed_inputs = uint64_t{1} << kW;
  }

  void plan_workspace(bool constant) {
    int64_t floats = whole_lines(g_.images * g_.all_in() * g_.in_plane());
    const auto take = [&](int64_t n) {
      const int64_t at = floats;
      floats += whole_lines(n);
      return at;
    };
    sums_at_ = take(g_.images * g_.all_out() * g_.out_plane());
    scratch_at_ = take(static_cast<int64_t>(sums_.scratch_floats()));
    if (!constant) {
      weights_at_ = take(weights_);
      packed_at_ = take(static_cast<int64_t>(sums_.packed_floats()));
    }
    workspace_bytes = static_cast<size_t>(floats) * sizeof(float);
  }

  template <typename R, typename Y>
  void finish(const void* const* in, const float* sums, Y* y) const {
    const int64_t plane = g_.out_plane();
    const float y_scale = ports_[kYScale].scale(in, 0), x_scale = ports_[kXScale].scale(in, 0);
    const float low = low_ / y_scale, high = high_ / y_scale;
    const int32_t zero = ports_[kYZero].zero(in, 0), r_zero = ports_[kRZero].zero(in, 0);
    const bool add = r_ != NDT_ABSENT;
    const float r_factor = add ? ports_[kRScale].scale(in, 0) / y_scale : 0;
    parallel_for(
        g_.images * g_.all_out(), kElementGrain / (plane + 1) + 1, [&](int64_t begin, int64_t end) {
          for (int64_t p = begin; p < end; ++p) {
            const int64_t m = p % g_.all_out(), at = p * plane;
            const float factor = x_scale * ports_[kWScale].scale(in, m) / y_scale;
            const float bias = has_bias_ ? static_cast<float>(as<int32_t>(in[kBias])[m]) : 0;
            const R* r = add ? as<R>(in[kR]) + at : nullptr;
            for (int64_t i = 0; i < plane; ++i) {
              float a = (sums[at + i] + bias) * factor;
              if (add) a += static_cast<float>(r[i] - r_zero) * r_factor;
              a = a < low ? low : a;
              y[at + i] = quantized<Y>(a > high ? high : a, zero);
            }
          }
        });
  }

  ConvGeometry g_;
  Sums sums_;
  ndt_dtype x_, w_, y_, r_ = NDT_ABSENT;
  PerIndex ports_[kRZero + 1];
  bool has_bias_ = false;
  float low_ = -std::numeric_limits<float>::infinity(), high_ = -low_;
  int64_t weights_ = 0, sums_at_ = 0, scratch_at_ = 0, weights_at_ = 0, packed_at_ = 0;
  std::shared_ptr<const std::byte[]> packed_;
};

std::unique_ptr<Kernel> quantized_conv_kernel(const Node& node) {
  for (const int port : {int{kX}, int{kW}}) for_byte(node.in(port).dtype, []<typename>() {});
  for_byte(node.out().dtype, []<typename>() {});
  const ConvGeometry g = conv_geometry(node, node.in(kX), node.in(kW), node.out());
  if (!g.flat()) unsupported("convolves along three dims");
  return std::make_unique<QuantizedConv>(node, g);
}

const Registered registered{
    {"QLinearConv", quantized_conv_kernel},
    {"FusedQLinearConv", quantized_conv_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
