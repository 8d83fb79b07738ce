// FusedQLinearAveragePool: AveragePool from bytes to bytes; what a pass makes of DequantizeLinear
// -> AveragePool, GlobalAveragePool or ReduceMean over planes -> QuantizeLinear. In f32, n being
// what AveragePool divides by:
//   y = saturate(round((sum over the window of (x - x_zero)) * (x_scale / y_scale / n)) + y_zero)
#include "framework/ops/pool.h"
#include "framework/ops/quantize.h"

namespace ndtrain {
namespace {

constexpr size_t kX = 0, kXScale = 1, kXZero = 2, kYScale = 3, kYZero = 4;

void complete(Attrs& a, std::span<const TensorType> in) { complete_window(a, in[kX].shape); }

void infer(InferContext& c) {
  check_quantized(c, kX);
  require(c, kYScale, is_float, "a float dtype");
  require(c, kYZero, is_byte, "i8 or u8");
  check_one_or(c, kYScale);
  check_one_or(c, kYZero);
  c.out.push_back({c.in[kYZero].dtype, pooled(c.shape(kX), pool_window(c.attrs, c.shape(kX)))});
}

void reference(const ReferenceContext& c) {
  const Window w = pool_window(c.attrs, c.shape(kX));
  const std::vector<double> counts = average_counts(c.attrs, w);
  const int64_t in = w.in_count(), out = w.out_count();
  const double zero = zero_point(c, kXZero);
  for (int64_t p = 0; p < c.shape(kX).count(0, 2); ++p) {
    for_each_tap(w, [&](int64_t o, int64_t, int64_t i) {
      c.out[0][p * out + o] += c.in[kX][p * in + i] - zero;
    });
    for (int64_t o = 0; o < out; ++o) {
      double& y = c.out[0][p * out + o];
      const float factor = scale(c, kXScale) / scale(c, kYScale) / static_cast<float>(counts[o]);
      y = quantized(static_cast<float>(y) * factor, zero_point(c, kYZero), c.out_types[0].dtype);
    }
  }
}

int64_t terms(const Attrs& a, std::span<const TensorType> in) {
  return window_of(a, in[kX].shape).taps();
}

std::vector<Example> examples() {
  const DType u = DType::kU8, i = DType::kI8;
  const Attrs global{{"kernel_shape", Ints{7, 5}}};
  Attrs same{{"kernel_shape", Ints{3, 3}}, {"pads", Ints(4, 1)}};
  Attrs padded = same;
  padded.set("count_include_pad", int64_t{1});
  const Attrs halved{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  return {
      {{all_bytes(u, {2, 40, 7, 5}), one_number(0.0213), one_number(0, u), one_number(0.0113),
        one_number(0, u)},
       global},
      {{all_bytes(u, {1, 83, 6, 7}), one_number(0.0213), one_number(17, u), one_number(0.0213),
        one_number(17, u)},
       same},
      {{all_bytes(i, {2, 64, 5, 6}), one_number(0.0213), one_number(0, i), one_number(0.0171),
        one_number(3, i)},
       padded},
      {{all_bytes(i, {3, 19, 6, 6}), one_number(0.0213), one_number(-5, i), one_number(0.0317),
        one_number(100, u)},
       halved},
      {{all_bytes(u, {1, 2, 9}), one_number(0.0213), one_number(3, u), one_number(0.0213),
        one_number(3, u)},
       {{"kernel_shape", Ints{3}}}},
  };
}

}  // namespace

std::vector<OpDef> fused_qlinear_average_pool_ops() {
  return {{.name = "FusedQLinearAveragePool",
           .facts = {.rank = RankRule::kFirst, .own_dtype = true, .per_image = each_image},
           .min_inputs = 5,
           .max_inputs = 5,
           .attrs = average_pool_attrs(),
           .complete = complete,
           .infer = infer,
           .reference = reference,
           .terms = terms,
           .optional_fusion = always,
           .examples = examples()}};
}

}  // namespace ndtrain
