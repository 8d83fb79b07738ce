// FusedQLinearMul: a product of bytes, y of a's shape; what a pass makes of DequantizeLinear -> Mul
// -> QuantizeLinear, where squeeze-and-excitation scales maps by a factor each. In f32:
//   y = saturate(round((a - a_zero) * (b - b_zero) * (a_scale * b_scale / y_scale)) + y_zero)
// b broadcasts to a.
#include "framework/ops/quantize.h"

namespace ndtrain {
namespace {

constexpr size_t kA = 0, kB = 3, kYScale = 6, kYZero = 7;

void infer(InferContext& c) {
  check_quantized(c, kA);
  check_quantized(c, kB);
  require(c, kYScale, is_float, "a float dtype");
  require(c, kYZero, is_byte, "i8 or u8");
  check_one_or(c, kYScale);
  check_one_or(c, kYZero);
  if (broadcast(c.shape(kB), c.shape(kA), "b") != c.shape(kA)) {
    throw Error("b ", c.shape(kB), " is larger than a ", c.shape(kA));
  }
  c.out.push_back({c.in[kYZero].dtype, c.shape(kA)});
}

void reference(const ReferenceContext& c) {
  const float factor = scale(c, kA + 1) * scale(c, kB + 1) / scale(c, kYScale);
  const double a_zero = zero_point(c, kA + 2), b_zero = zero_point(c, kB + 2);
  const Shape from[] = {c.shape(kB)};
  for_each_broadcast(c.out_shape(), from, [&](int64_t i, std::span<const int64_t> at) {
    const double product = (c.in[kA][static_cast<size_t>(i)] - a_zero) *
                           (c.in[kB][static_cast<size_t>(at[0])] - b_zero);
    c.out[0][static_cast<size_t>(i)] = quantized(static_cast<float>(product) * factor,
                                                 zero_point(c, kYZero), c.out_types[0].dtype);
  });
}

std::vector<Example> examples() {
  const DType u = DType::kU8, i = DType::kI8;
  return {
      {{all_bytes(u, {2, 40, 5, 7}), one_number(0.0213), one_number(0, u),
        all_bytes(u, {2, 40, 1, 1}), one_number(0.0039), one_number(0, u), one_number(0.0117),
        one_number(0, u)}},
      {{all_bytes(i, {1, 83, 4, 3}), one_number(0.0213), one_number(0, i),
        all_bytes(u, {1, 83, 1, 1}), one_number(0.0039), one_number(0, u), one_number(0.0117),
        one_number(0, i)}},
      {{all_bytes(u, {3, 16, 6, 6}), one_number(0.0213), one_number(117, u),
        all_bytes(i, {3, 16, 1, 1}), one_number(0.0139), one_number(-7, i), one_number(0.0217),
        one_number(100, u)}},
      {{all_bytes(u, {3, 5, 9}), one_number(0.0213), one_number(117, u), all_bytes(i, {5, 9}),
        one_number(0.0139), one_number(3, i), one_number(0.0317), one_number(-3, i)}},
  };
}

}  // namespace

std::vector<OpDef> fused_qlinear_mul_ops() {
  return {{.name = "FusedQLinearMul",
           .facts = {.rank = RankRule::kFirst, .own_dtype = true, .per_image = each_image},
           .min_inputs = 8,
           .max_inputs = 8,
           .infer = infer,
           .reference = reference,
           .optional_fusion = always,
           .examples = examples()}};
}

}  // namespace ndtrain
