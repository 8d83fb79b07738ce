// Products of bytes (ONNX opset 10). ConvInteger, MatMulInteger: sum of (x - x_zp) * (w - w_zp) in
// i32. QLinearConv, QLinearMatMul: that sum (plus a bias), times x_scale * w_scale / y_scale in
// f32, rounded and saturated like QuantizeLinear. Padding stands for x_zp and adds nothing.
#include "framework/ops/conv.h"
#include "framework/ops/matmul.h"
#include "framework/ops/quantize.h"

namespace ndtrain {
namespace {

// Inputs of a product: where its operands, their zero points and their scales are.
struct Ports {
  size_t x, x_zp, w, w_zp;
};
constexpr Ports kInteger{.x = 0, .x_zp = 2, .w = 1, .w_zp = 3};
constexpr Ports kLinear{.x = 0, .x_zp = 2, .w = 3, .w_zp = 5};
constexpr size_t kXScale = 1, kWScale = 4, kYScale = 6, kYZeroPoint = 7, kBias = 8;

std::vector<double> conv_sums(const ReferenceContext& c, Ports p) {
  const ConvShape s = conv_shape(c.attrs, c.shape(p.x), c.shape(p.w));
  const int64_t per_channel = s.in_channels * s.window.taps();
  const double x_zp = zero_point(c, p.x_zp);
  std::vector<double> sums(s.output().count(), 0.0);
  for_each_product(s, [&](int64_t y, int64_t x, int64_t w) {
    sums[y] += (c.in[p.x][x] - x_zp) * (c.in[p.w][w] - zero_point(c, p.w_zp, w / per_channel));
  });
  return sums;
}

std::vector<double> matmul_sums(const ReferenceContext& c, Ports p) {
  const MatMulShape s = matmul_shape(c.shape(p.x), c.shape(p.w));
  std::vector<double> sums(s.output.count(), 0.0);
  for_each_matmul_product(s, [&](int64_t y, int64_t a, int64_t b, int64_t row, int64_t column) {
    sums[y] += (c.in[p.x][a] - zero_point(c, p.x_zp, row)) *
               (c.in[p.w][b] - zero_point(c, p.w_zp, column));
  });
  return sums;
}

double requantized(const ReferenceContext& c, double sum, int64_t row, int64_t column) {
  const float factor = scale(c, kXScale, row) * scale(c, kWScale, column) / scale(c, kYScale);
  return quantized(static_cast<float>(sum) * factor, zero_point(c, kYZeroPoint),
                   c.out_types[0].dtype);
}

void check_integer(const InferContext& c, int64_t rows, int64_t columns) {
  for (size_t i : {0, 1}) {
    require(c, i, is_byte, "i8 or u8");
    require_same_dtype(c, i, i + 2);
  }
  check_one_or(c, 2, rows);
  check_one_or(c, 3, columns);
}

void check_linear(const InferContext& c, int64_t rows, int64_t columns) {
  check_quantized(c, 0, rows);
  check_quantized(c, 3, columns);
  require(c, kYScale, is_float, "a float dtype");
  require(c, kYZeroPoint, is_byte, "i8 or u8");
  check_one_or(c, kYScale);
  check_one_or(c, kYZeroPoint);
}

void infer_conv_integer(InferContext& c) {
  const Shape y = conv_shape(c.attrs, c.shape(0), c.shape(1)).output();
  check_integer(c, 0, y[1]);
  c.out.push_back({DType::kI32, y});
}

void conv_integer_reference(const ReferenceContext& c) { c.out[0] = conv_sums(c, kInteger); }

void infer_qlinear_conv(InferContext& c) {
  const Shape y = conv_shape(c.attrs, c.shape(0), c.shape(3)).output();
  check_linear(c, 0, y[1]);
  require(
      c, kBias, [](DType t) { return t == DType::kI32; }, "i32");
  check_conv_bias(c, kBias, y);
  c.out.push_back({c.in[kYZeroPoint].dtype, y});
}

void qlinear_conv_reference(const ReferenceContext& c) {
  const std::vector<double> sums = conv_sums(c, kLinear);
  const Shape& y = c.out_shape();
  const int64_t plane = y.count(2, y.rank());
  for (size_t i = 0; i < sums.size(); ++i) {
    const int64_t m = static_cast<int64_t>(i) / plane % y[1];
    c.out[0][i] = requantized(c, sums[i] + (c.has(kBias) ? c.in[kBias][m] : 0), 0, m);
  }
}

// Vectors of scales are per row on the left, per column on the right.
void infer_matmul_integer(InferContext& c) {
  const MatMulShape s = matmul_shape(c.shape(0), c.shape(1));
  check_integer(c, s.m, s.n);
  c.out.push_back({DType::kI32, s.output});
}

void matmul_integer_reference(const ReferenceContext& c) { c.out[0] = matmul_sums(c, kInteger); }

void infer_qlinear_matmul(InferContext& c) {
  const MatMulShape s = matmul_shape(c.shape(0), c.shape(3));
  check_linear(c, s.m, s.n);
  c.out.push_back({c.in[kYZeroPoint].dtype, s.output});
}

void qlinear_matmul_reference(const ReferenceContext& c) {
  const MatMulShape s = matmul_shape(c.shape(0), c.shape(3));
  const std::vector<double> sums = matmul_sums(c, kLinear);
  for (size_t i = 0; i < sums.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i);
    c.out[0][i] = requantized(c, sums[i], at / s.n % s.m, at % s.n);
  }
}

template <size_t W>
int64_t conv_terms(const Attrs& a, std::span<const TensorType> in) {
  return conv_shape(a, in[0].shape, in[W].shape).terms();
}

int64_t matmul_terms(const Attrs&, std::span<const TensorType> in) { return in[0].shape[-1]; }

ExampleInput many(std::vector<double> v, DType t = DType::kF32) {
  const Shape s{static_cast<int64_t>(v.size())};
  ExampleInput e = ExampleInput::given(t, s, std::move(v));
  e.known = true;
  return e;
}

std::vector<Example> conv_integer_examples() {
  const DType u = DType::kU8, i = DType::kI8;
  return {
      {{all_bytes(u, {1, 3, 5, 5}), all_bytes(i, {4, 3, 3, 3}), one_number(128, u)},
       {{"pads", Ints{1, 1, 1, 1}}}},
      {{all_bytes(u, {2, 4, 6, 6}), all_bytes(u, {4, 2, 3, 3}), one_number(7, u),
        many({1, 2, 3, 4}, u)},
       {{"group", 2}, {"strides", Ints{2, 2}}}},
      {{all_bytes(i, {1, 2, 9}), all_bytes(i, {3, 2, 3})}, {{"auto_pad", "SAME_UPPER"}}},
  };
}

std::vector<Example> qlinear_conv_examples() {
  const DType u = DType::kU8, i = DType::kI8;
  const ExampleInput bias = ExampleInput::range({4}, -2000, 2000, DType::kI32);
  const ExampleInput per_channel = many({0.011, 0.017, 0.005, 0.013});
  return {
      {{all_bytes(u, {1, 3, 5, 5}), one_number(0.02), one_number(128, u),
        all_bytes(i, {4, 3, 3, 3}), per_channel, many({0, 0, 0, 0}, i), one_number(0.31),
        one_number(120, u), bias},
       {{"pads", Ints{1, 1, 1, 1}}}},
      {{all_bytes(i, {3, 4, 6, 6}), one_number(0.02), one_number(-3, i), all_bytes(i, {4, 1, 3, 3}),
        one_number(0.01), one_number(0, i), one_number(0.11), one_number(5, i)},
       {{"group", 4}, {"strides", Ints{2, 2}}, {"auto_pad", "SAME_LOWER"}}},
      {{all_bytes(u, {2, 8, 4, 4}), one_number(0.02), one_number(3, u), all_bytes(u, {4, 8, 1, 1}),
        one_number(0.01), one_number(127, u), one_number(0.17), one_number(100, u), bias}},
      {{all_bytes(u, {2, 2, 9}), one_number(0.02), one_number(100, u), all_bytes(i, {4, 2, 3}),
        one_number(0.01), one_number(1, i), one_number(0.2), one_number(128, u)}},
  };
}

std::vector<Example> matmul_integer_examples() {
  const DType u = DType::kU8, i = DType::kI8;
  return {
      {{all_bytes(u, {3, 7}), all_bytes(i, {7, 4}), one_number(12, u), many({1, -2, 0, 3}, i)}},
      {{all_bytes(u, {2, 3, 7}), all_bytes(u, {7, 4}), many({1, 2, 3}, u)}},
      {{all_bytes(i, {7}), all_bytes(i, {7, 4})}},
  };
}

std::vector<Example> qlinear_matmul_examples() {
  const DType u = DType::kU8, i = DType::kI8;
  return {
      {{all_bytes(u, {3, 7}), one_number(0.0066), one_number(113, u), all_bytes(u, {7, 4}),
        one_number(0.0070), one_number(114, u), one_number(0.0107), one_number(118, u)}},
      {{all_bytes(u, {2, 3, 7}), one_number(0.02), one_number(128, u), all_bytes(i, {7, 4}),
        many({0.01, 0.02, 0.03, 0.007}), many({0, 1, 2, 3}, i), one_number(0.37),
        one_number(128, u)}},
      {{all_bytes(i, {3, 40}), many({0.01, 0.02, 0.03}), many({1, 2, 3}, i), all_bytes(i, {40, 5}),
        one_number(0.01), one_number(0, i), one_number(0.7), one_number(0, i)}},
  };
}

}  // namespace

std::vector<OpDef> quantized_product_ops() {
  return {
      {.name = "ConvInteger",
       .facts = {.onnx = 10, .kind = OpKind::kProduct, .rank = RankRule::kFirst, .own_dtype = true},
       .min_inputs = 2,
       .max_inputs = 4,
       .attrs = conv_attrs(),
       .complete = complete_conv<1>,
       .infer = infer_conv_integer,
       .reference = conv_integer_reference,
       .terms = conv_terms<1>,
       .examples = conv_integer_examples()},
      {.name = "QLinearConv",
       .facts = {.onnx = 10, .kind = OpKind::kProduct, .rank = RankRule::kFirst, .own_dtype = true},
       .min_inputs = 8,
       .max_inputs = 9,
       .attrs = conv_attrs(),
       .complete = complete_conv<3>,
       .infer = infer_qlinear_conv,
       .reference = qlinear_conv_reference,
       .terms = conv_terms<3>,
       .examples = qlinear_conv_examples()},
      {.name = "MatMulInteger",
       .facts = {.onnx = 10, .kind = OpKind::kProduct, .own_dtype = true},
       .min_inputs = 2,
       .max_inputs = 4,
       .infer = infer_matmul_integer,
       .reference = matmul_integer_reference,
       .terms = matmul_terms,
       .examples = matmul_integer_examples()},
      {.name = "QLinearMatMul",
       .facts = {.onnx = 10, .kind = OpKind::kProduct, .own_dtype = true},
       .min_inputs = 8,
       .max_inputs = 8,
       .infer = infer_qlinear_matmul,
       .reference = qlinear_matmul_reference,
       .terms = matmul_terms,
       .examples = qlinear_matmul_examples()},
  };
}

}  // namespace ndtrain
