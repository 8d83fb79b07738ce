// FusedQLinearBatchNorm: a number times a factor, plus an offset, of its channel, from bytes to
// bytes, of maps that are joined by their channels; what a pass makes of DequantizeLinear ->
// Concat -> BatchNormalization -> Relu -> QuantizeLinear, as in DenseNet. In f32, the product
// rounded before the sum:
//   y = saturate(round(x * factor[c] + offset[c]) + y_zero)
// Inputs: factor and offset [C], which have all scales and zero points of the maps in them, y_zero,
// then the maps [N, C_k, …], the C_k adding up to C.
#include "framework/core/limits.h"
#include "framework/ops/quantize.h"

namespace ndtrain {
namespace {

constexpr size_t kFactor = 0, kOffset = 1, kYZero = 2, kMaps = 3;

void infer(InferContext& c) {
  require(c, kYZero, is_byte, "i8 or u8");
  check_one_or(c, kYZero);
  const Shape& first = c.shape(kMaps);
  if (first.rank() < 2) throw Error("x ", first, " has no channels (expected [N, C, …])");
  int64_t channels = 0;
  for (size_t k = kMaps; k < c.in.size(); ++k) {
    require(c, k, is_byte, "i8 or u8");
    const Shape& x = c.shape(k);
    if (x.rank() != first.rank() || x.with(1, 0) != first.with(1, 0)) {
      throw Error("maps ", first, " and ", x, " differ beside their channels");
    }
    if (__builtin_add_overflow(channels, x[1], &channels)) throw Error("the channels overflow");
  }
  for (const size_t i : {kFactor, kOffset}) {
    require(
        c, i, [](DType t) { return t == DType::kF32; }, "f32");
    if (c.shape(i) != Shape{channels}) {
      throw Error("the maps have ", channels, " channels, input ", i, " is ", c.shape(i));
    }
  }
  c.out.push_back({c.in[kYZero].dtype, first.with(1, channels)});
}

void reference(const ReferenceContext& c) {
  const Shape& y = c.out_shape();
  const int64_t plane = y.count(2, y.rank());
  for (int64_t n = 0; n < y[0]; ++n) {
    double* out = c.out[0].data() + n * y[1] * plane;
    int64_t channel = 0;
    for (size_t k = kMaps; k < c.in.size(); ++k) {
      const int64_t channels = c.shape(k)[1];
      const double* x = c.in[k].data() + n * channels * plane;
      for (int64_t i = 0; i < channels * plane; ++i) {
        const auto at = static_cast<size_t>(channel + i / plane);
        const float product = static_cast<float>(x[i]) * static_cast<float>(c.in[kFactor][at]);
        *out++ = quantized(product + static_cast<float>(c.in[kOffset][at]), zero_point(c, kYZero),
                           c.out_types[0].dtype);
      }
      channel += channels;
    }
  }
}

std::vector<Example> examples() {
  const DType u = DType::kU8, i = DType::kI8;
  const auto per_channel = [](int64_t channels, double low, double high) {
    return ExampleInput::range({channels}, low, high);
  };
  return {
      {{per_channel(40, -1, 1), per_channel(40, -50, 200), one_number(0, u),
        all_bytes(u, {2, 40, 5, 7})}},
      {{per_channel(99, -1, 2), per_channel(99, -50, 50), one_number(0, u),
        all_bytes(u, {2, 64, 4, 3}), all_bytes(i, {2, 32, 4, 3}), all_bytes(i, {2, 3, 4, 3})}},
      {{per_channel(41, -1, 1), per_channel(41, -50, 50), one_number(-7, i),
        all_bytes(i, {3, 24, 9}), all_bytes(u, {3, 17, 9})}},
      {{per_channel(5, -1, 1), per_channel(5, 0, 99), one_number(128, u), all_bytes(i, {7, 5})}},
  };
}

}  // namespace

std::vector<OpDef> fused_qlinear_batch_norm_ops() {
  return {{.name = "FusedQLinearBatchNorm",
           .facts = {.own_dtype = true, .per_image = each_image},
           .min_inputs = kMaps + 1,
           .max_inputs = limits::kPorts,
           .infer = infer,
           .reference = reference,
           .optional_fusion = always,
           .examples = examples()}};
}

}  // namespace ndtrain
