// FusedQLinearMatMul: rows of bytes times a matrix of bytes with scales per column, a bias and the
// elementwise `steps` f; what a pass makes of DequantizeLinear -> MatMul -> Add -> f ->
// QuantizeLinear. In f32, with B = w or w^T:
//   a = f((sum over k of (x - x_zero) * (B - w_zero[n])) * (x_scale * w_scale[n]) + bias[n])
//   y = saturate(round(a / y_scale) + y_zero), or without y_scale a itself
#include "framework/ops/quantize.h"
#include "framework/ops/steps.h"

namespace ndtrain {
namespace {

constexpr size_t kX = 0, kW = 3, kYScale = 6, kYZero = 7, kBias = 8;

int64_t depth(const Attrs& attrs, const Shape& w) { return w[attrs.flag("transB") ? 1 : 0]; }
int64_t columns(const Attrs& attrs, const Shape& w) { return w[attrs.flag("transB") ? 0 : 1]; }

void infer(InferContext& c) {
  const Shape &x = c.shape(kX), &w = c.shape(kW);
  const char* transposed = c.attrs.flag("transB") ? "^T" : "";
  if (x.rank() < 2 || w.rank() != 2 || x[-1] != depth(c.attrs, w)) {
    throw Error("x ", x, " and w ", w, transposed, " do not multiply");
  }
  const int64_t n = columns(c.attrs, w);
  check_quantized(c, kX);
  check_quantized(c, kW, n);
  if (c.has(kYScale) != c.has(kYZero)) throw Error("y has a scale or a zero point alone");
  require(c, kYScale, is_float, "a float dtype");
  require(c, kYZero, is_byte, "i8 or u8");
  check_one_or(c, kYScale);
  check_one_or(c, kYZero);
  require(c, kBias, is_float, "a float dtype");
  if (c.has(kBias) && (c.shape(kBias).count() != n || c.shape(kBias)[-1] != n)) {
    throw Error("a bias ", c.shape(kBias), " for ", n, " columns");
  }
  std::vector<int64_t> dims = x.dims();
  dims.back() = n;
  const TensorType sums{DType::kF32, Shape(std::move(dims))};
  check_steps(c.attrs, sums);
  c.out.push_back({c.has(kYZero) ? c.in[kYZero].dtype : DType::kF32, sums.shape});
}

void reference(const ReferenceContext& c) {
  const bool transposed = c.attrs.flag("transB");
  const int64_t n = columns(c.attrs, c.shape(kW)), k = depth(c.attrs, c.shape(kW));
  const double x_zero = zero_point(c, kX + 2);
  std::vector<double>& y = c.out[0];
  for (int64_t i = 0; i < c.out_shape().count(); ++i) {
    const int64_t row = i / n, column = i % n;
    const double w_zero = zero_point(c, kW + 2, column);
    double sum = 0;
    for (int64_t l = 0; l < k; ++l) {
      sum += (c.in[kX][row * k + l] - x_zero) *
             (c.in[kW][transposed ? column * k + l : l * n + column] - w_zero);
    }
    const float factor = scale(c, kX + 1) * scale(c, kW + 1, column);
    y[i] = sum * static_cast<double>(factor) + (c.has(kBias) ? c.in[kBias][column] : 0);
  }
  apply_steps(c.attrs, {DType::kF32, c.out_shape()}, y);
  if (!c.has(kYScale)) return;
  for (double& v : y) {
    v = quantized(static_cast<float>(v) / scale(c, kYScale), zero_point(c, kYZero),
                  c.out_types[0].dtype);
  }
}

int64_t terms(const Attrs&, std::span<const TensorType> in) { return in[kX].shape[-1]; }

// Of the kinds that calibration makes: u8 off centre, weights i8 per column; then the others.
std::vector<Example> examples() {
  const DType u = DType::kU8, i = DType::kI8;
  const ExampleInput scales = known_numbers({0.0113, 0.0171, 0.0057, 0.0131}),
                     none = known_numbers({0, 0, 0, 0}, i), absent = ExampleInput::absent();
  const Attrs relu{{"steps", "Relu x0"}}, gelu{{"steps", "Gelu x0 approximate=none"}};
  Attrs transposed = relu;
  transposed.set("transB", 1);
  return {
      {{all_bytes(u, {2, 5, 24}),
        one_number(0.0213),
        one_number(117, u),
        all_bytes(i, {24, 4}),
        scales,
        none,
        absent,
        absent,
        {4}}},
      {{all_bytes(u, {2, 5, 24}),
        one_number(0.0013),
        one_number(117, u),
        all_bytes(i, {24, 4}),
        scales,
        none,
        one_number(0.0113),
        one_number(9, u),
        {4}},
       gelu},
      {{all_bytes(u, {7, 70}),
        one_number(0.0213),
        one_number(3, u),
        all_bytes(i, {4, 70}),
        scales,
        none,
        one_number(0.313),
        one_number(0, u),
        {4}},
       transposed},
      {{all_bytes(i, {7, 9}), one_number(0.0213), one_number(-3, i), all_bytes(i, {9, 4}),
        one_number(0.0131)}},
      {{all_bytes(u, {3, 2, 33}),
        one_number(0.0213),
        absent,
        all_bytes(u, {33, 4}),
        scales,
        known_numbers({100, 120, 128, 131}, u),
        one_number(0.617),
        one_number(-5, i),
        {1, 1, 4}}},
  };
}

}  // namespace

std::vector<OpDef> fused_qlinear_matmul_ops() {
  return {{.name = "FusedQLinearMatMul",
           .facts = {.kind = OpKind::kProduct, .rank = RankRule::kFirst, .own_dtype = true},
           .min_inputs = 5,
           .max_inputs = 9,
           .attrs = {{"transB", AttrSpec::Kind::kInt, Attr(int64_t{0})}, steps_attr()},
           .infer = infer,
           .reference = reference,
           .terms = terms,
           .optional_fusion = always,
           .examples = examples()}};
}

}  // namespace ndtrain
