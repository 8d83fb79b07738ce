// FusedQLinearConv: a QLinearConv, plus a residual, within limits (`steps`); what passes make of
// DequantizeLinear -> FusedConv -> QuantizeLinear. In units of y_scale, in f32 as in QLinearConv:
//   a = (sum over c, k of (x - x_zero) * (w - w_zero[m]) + b[m]) * (x_scale * w_scale[m] / y_scale)
//       + (r - r_zero) * (r_scale / y_scale)
//   y = saturate(round(clamp(a, low / y_scale, high / y_scale)) + y_zero)
// Padding stands for x_zero and adds nothing.
#include "framework/ops/conv.h"
#include "framework/ops/quantize.h"
#include "framework/ops/steps.h"

namespace ndtrain {
namespace {

constexpr size_t kX = 0, kW = 3, kYScale = 6, kYZero = 7, kBias = 8, kResidual = 9;

void infer(InferContext& c) {
  const Shape y = conv_shape(c.attrs, c.shape(kX), c.shape(kW)).output();
  check_quantized(c, kX);
  check_quantized(c, kW, y[1]);
  require(c, kYScale, is_float, "a float dtype");
  require(c, kYZero, is_byte, "i8 or u8");
  check_one_or(c, kYScale);
  check_one_or(c, kYZero);
  require(
      c, kBias, [](DType t) { return t == DType::kI32; }, "i32");
  check_conv_bias(c, kBias, y);
  if (c.has(kResidual)) {
    if (!c.has(kResidual + 1)) throw Error("the residual has no scale");
    check_quantized(c, kResidual);
    check_residual(c, kResidual, y);
  }
  limits_of(c.attrs);
  c.out.push_back({c.in[kYZero].dtype, y});
}

void reference(const ReferenceContext& c) {
  const ConvShape s = conv_shape(c.attrs, c.shape(kX), c.shape(kW));
  const Shape& y = c.out_shape();
  const int64_t plane = s.window.out_count(), per_channel = s.terms();
  const auto channel = [&](size_t i) { return static_cast<int64_t>(i) / plane % y[1]; };
  std::vector<double> sums(static_cast<size_t>(y.count()), 0.0);
  for (size_t i = 0; c.has(kBias) && i < sums.size(); ++i) sums[i] = c.in[kBias][channel(i)];
  const double x_zero = zero_point(c, kX + 2);
  for_each_product(s, [&](int64_t o, int64_t i, int64_t k) {
    sums[o] += (c.in[kX][i] - x_zero) * (c.in[kW][k] - zero_point(c, kW + 2, k / per_channel));
  });
  const auto [low, high] = limits_of(c.attrs);
  const float y_scale = scale(c, kYScale);
  const auto first = static_cast<float>(low) / y_scale, last = static_cast<float>(high) / y_scale;
  for (size_t i = 0; i < sums.size(); ++i) {
    float a =
        static_cast<float>(sums[i]) * (scale(c, kX + 1) * scale(c, kW + 1, channel(i)) / y_scale);
    if (c.has(kResidual)) {
      const double r = c.in[kResidual][i] - zero_point(c, kResidual + 2);
      a += static_cast<float>(r) * (scale(c, kResidual + 1) / y_scale);
    }
    a = std::min(std::max(a, first), last);
    c.out[0][i] = quantized(a, zero_point(c, kYZero), c.out_types[0].dtype);
  }
}

int64_t terms(const Attrs& a, std::span<const TensorType> in) {
  return conv_shape(a, in[kX].shape, in[kW].shape).terms();
}

// Of the kinds that calibration makes: zero points 0, weights i8 per channel; then the others.
std::vector<Example> examples() {
  const DType u = DType::kU8, i = DType::kI8;
  const auto bias = [](int64_t n) { return ExampleInput::range({n}, -3000, 3000, DType::kI32); };
  const ExampleInput scales = known_numbers({0.0113, 0.0171, 0.0057, 0.0131}),
                     none = known_numbers({0, 0, 0, 0}, i);
  const Attrs relu{{"steps", "Relu x0"}}, clip{{"steps", "Clip x0 -2 3"}};
  Attrs padded = relu;
  padded.set("pads", Ints(4, 1));
  const Attrs depthwise{
      {"steps", "Clip x0 0 6"}, {"group", 4}, {"pads", Ints(4, 1)}, {"strides", Ints(2, 2)}};
  return {
      {{all_bytes(u, {2, 3, 6, 7}), one_number(0.0213), one_number(0, u),
        all_bytes(i, {4, 3, 3, 3}), scales, none, one_number(0.217), one_number(0, u), bias(4)},
       padded},
      {{all_bytes(u, {2, 8, 5, 5}), one_number(0.0213), one_number(0, u),
        all_bytes(i, {4, 8, 1, 1}), scales, none, one_number(0.313), one_number(0, u), bias(4),
        all_bytes(u, {2, 4, 5, 5}), one_number(0.0917), one_number(0, u)},
       relu},
      {{all_bytes(u, {1, 8, 9, 20}), one_number(0.0213), one_number(0, u),
        all_bytes(i, {4, 8, 3, 3}), scales, none, one_number(0.713), one_number(0, i), bias(4),
        all_bytes(i, {1, 4, 9, 20}), one_number(0.517), one_number(0, i)},
       {{"pads", Ints(4, 1)}}},
      {{all_bytes(i, {3, 4, 6, 6}), one_number(0.0171), one_number(0, i),
        all_bytes(i, {4, 1, 3, 3}), scales, none, one_number(0.0237), one_number(0, u), bias(4)},
       depthwise},
      {{all_bytes(u, {1, 4, 7, 7}), one_number(0.0213), one_number(113, u),
        all_bytes(i, {4, 2, 3, 3}), one_number(0.0131), one_number(0, i), one_number(0.113),
        one_number(-5, i), ExampleInput::absent(), all_bytes(u, {1, 4, 5, 5}), one_number(0.0217),
        one_number(3, u)},
       [&] {
         Attrs a = clip;
         a.set("group", int64_t{2});
         return a;
       }()},
      {{all_bytes(u, {1, 2, 9}), one_number(0.0213), one_number(100, u), all_bytes(i, {4, 2, 3}),
        scales, none, one_number(0.217), one_number(128, u)}},
  };
}

}  // namespace

std::vector<OpDef> fused_qlinear_conv_ops() {
  return {{.name = "FusedQLinearConv",
           .facts = {.kind = OpKind::kProduct,
                     .rank = RankRule::kFirst,
                     .own_dtype = true,
                     .residual = 9,
                     .per_image = each_image},
           .min_inputs = 8,
           .max_inputs = 12,
           .attrs = conv_attrs({steps_attr()}),
           .complete = complete_conv<3>,
           .infer = infer,
           .reference = reference,
           .terms = terms,
           .examples = examples()}};
}

}  // namespace ndtrain
