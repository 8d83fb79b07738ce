// QuantizeLinear: y = saturate(round(x / scale) + zero_point). DequantizeLinear: y = (x -
// zero_point) * scale. Scales are one value, one per index of `axis`, or one per block of
// block_size along it (ONNX opset 21). DynamicQuantizeLinear: to u8 with scale and zero point from
// the range of x (opset 11).
#include "framework/ops/quantize.h"

namespace ndtrain {

double quantized(float x, double zero_point, DType t) {
  const int bits = static_cast<int>(8 * size_of(t));
  const double low = is_signed(t) ? -std::ldexp(1.0, bits - 1) : 0;
  const double high = std::ldexp(1.0, is_signed(t) ? bits - 1 : bits) - 1;
  if (std::isnan(x)) return zero_point;
  return std::clamp(std::nearbyint(static_cast<double>(x)) + zero_point, low, high);
}

void check_one_or(const InferContext& c, size_t i, int64_t n) {
  if (!c.has(i) || c.shape(i) == Shape{} || c.shape(i) == Shape{1}) return;
  if (n > 0 && c.shape(i) == Shape{n}) return;
  if (n > 0) throw Error("input ", i, " ", c.shape(i), " is neither one value nor [", n, "]");
  throw Error("input ", i, " ", c.shape(i), " is not one value");
}

void check_quantized(const InferContext& c, size_t i, int64_t n) {
  require(c, i, is_byte, "i8 or u8");
  require(c, i + 1, is_float, "a float dtype");
  require_same_dtype(c, i, i + 2);
  check_one_or(c, i + 1, n);
  check_one_or(c, i + 2, n);
}

ExampleInput all_bytes(DType t, Shape s) {
  const bool u8 = t == DType::kU8;
  return ExampleInput::range(std::move(s), u8 ? 0 : -128, u8 ? 255 : 127, t);
}

ExampleInput one_number(double v, DType t) { return ExampleInput::scalar(v, t); }

ExampleInput known_numbers(std::vector<double> v, DType t) {
  const Shape s{static_cast<int64_t>(v.size())};
  ExampleInput e = ExampleInput::given(t, s, std::move(v));
  e.known = true;
  return e;
}

namespace {

using Kind = AttrSpec::Kind;

// Scale and zero point of every element of x: f(element of x, element of scale).
template <typename F>
void for_each_scale(const Attrs& a, const Shape& x, const Shape& scale, const F& f) {
  const int64_t block = a.i("block_size");
  const bool single = scale.count() == 1 && scale.rank() <= 1;
  const int axis = single ? 0 : x.axis(a.i("axis"), "axis");
  for (int64_t i = 0; i < x.count(); ++i) {
    if (single) {
      f(i, 0);
      continue;
    }
    const int64_t inner = x.count(axis + 1, x.rank()), at = i / inner % x[axis];
    const int64_t outer = i / inner / x[axis];
    f(i, block == 0 ? at : (outer * scale[axis] + at / block) * inner + i % inner);
  }
}

void check_scale(const InferContext& c) {
  const Shape &x = c.shape(0), &scale = c.shape(1);
  require(c, 1, is_float, "a float dtype");
  const bool singles = scale.count() == 1 && c.has(2) && c.shape(2).count() == 1;
  if (c.has(2) && c.shape(2) != scale && !singles) {
    throw Error("zero point ", c.shape(2), " does not have the shape of scale ", scale);
  }
  const int64_t block = c.attrs.i("block_size");
  if (block < 0) throw Error("block_size is ", block, ", expected 0 or more");
  if (scale.count() == 1 && scale.rank() <= 1) return;
  const int axis = x.axis(c.attrs.i("axis"), "axis");
  if (block == 0 && scale != Shape{x[axis]}) {
    throw Error("scale ", scale, " is neither one value nor one for each of ", x[axis],
                " along axis ", axis, " of ", x);
  }
  if (block > 0 && scale != x.with(axis, x[axis] / block + (x[axis] % block != 0))) {
    throw Error("scale ", scale, " is not one value per block of ", block, " along axis ", axis,
                " of ", x);
  }
}

bool narrow_integer(DType t) { return is_integer(t) && size_of(t) <= 2; }

DType quantized_type(const InferContext& c) {
  const DType asked = static_cast<DType>(c.attrs.i("output_dtype"));
  if (c.has(2) && asked != DType::kNone && asked != c.in[2].dtype) {
    throw Error("output_dtype is not the dtype of the zero point ", c.in[2]);
  }
  if (c.has(2)) return c.in[2].dtype;
  return asked == DType::kNone ? DType::kU8 : asked;
}

void infer_quantize(InferContext& c) {
  require(
      c, 0, [](DType t) { return is_float(t) || t == DType::kI32; }, "a float dtype or i32");
  check_scale(c);
  const DType t = quantized_type(c);
  if (!narrow_integer(t)) throw Error("cannot quantise to ", name_of(t), ", only to 8 or 16 bits");
  c.out.push_back({t, c.shape(0)});
}

void quantize_reference(const ReferenceContext& c) {
  for_each_scale(c.attrs, c.shape(0), c.shape(1), [&](int64_t i, int64_t k) {
    const float x = static_cast<float>(c.in[0][i]) / scale(c, 1, k);
    c.out[0][i] = quantized(x, zero_point(c, 2, k), c.out_types[0].dtype);
  });
}

void infer_dequantize(InferContext& c) {
  require(
      c, 0, [](DType t) { return narrow_integer(t) || t == DType::kI32; },
      "integers of 8 or 16 bits or i32");
  require_same_dtype(c, 0, 2);
  check_scale(c);
  c.out.push_back({c.in[1].dtype, c.shape(0)});
}

void dequantize_reference(const ReferenceContext& c) {
  for_each_scale(c.attrs, c.shape(0), c.shape(1), [&](int64_t i, int64_t k) {
    c.out[0][i] = (c.in[0][i] - zero_point(c, 2, k)) * c.in[1][k];
  });
}

void infer_dynamic(InferContext& c) {
  require(
      c, 0, [](DType t) { return t == DType::kF32; }, "f32");
  if (c.shape(0).count() == 0) throw Error("input ", c.shape(0), " is empty and has no range");
  c.out.push_back({DType::kU8, c.shape(0)});
  c.out.push_back({DType::kF32, {}});
  c.out.push_back({DType::kU8, {}});
}

// The range is made to hold 0, so that 0 is exact.
void dynamic_reference(const ReferenceContext& c) {
  float low = 0, high = 0;
  for (double x : c.in[0]) {
    low = std::min(low, static_cast<float>(x));
    high = std::max(high, static_cast<float>(x));
  }
  const float step = high == low ? 1 : (high - low) / 255.0F;
  const double zero = quantized(-low / step, 0, DType::kU8);
  for (size_t i = 0; i < c.in[0].size(); ++i) {
    c.out[0][i] = quantized(static_cast<float>(c.in[0][i]) / step, zero, DType::kU8);
  }
  c.out[1][0] = step;
  c.out[2][0] = zero;
}

ExampleInput scales(std::vector<double> v, DType t = DType::kF32) {
  const Shape s{static_cast<int64_t>(v.size())};
  return ExampleInput::given(t, s, std::move(v));
}

std::vector<Example> quantize_examples() {
  const auto x = [](Shape s) { return ExampleInput::range(std::move(s), -3, 3); };
  const auto one = [](double v, DType t = DType::kF32) { return ExampleInput::scalar(v, t); };
  const ExampleInput blocks = ExampleInput::range({2, 2, 3}, 0.01, 0.1);
  return {
      {{x({3, 17}), one(0.0213), one(128, DType::kU8)}},
      {{x({3, 17}), one(0.0113), one(-3, DType::kI8)}},
      {{x({64}), one(0.05)}},
      {{x({64}), one(0.05)}, {{"output_dtype", static_cast<int64_t>(DType::kI16)}}},
      {{x({2, 3, 4, 5}), scales({0.02, 0.03, 0.05}), scales({0, 3, -5}, DType::kI8)}},
      {{x({2, 3}), scales({0.02, 0.03}), scales({9, 200}, DType::kU16)}, {{"axis", 0}}},
      {{x({2, 5, 3}), blocks}, {{"block_size", 3}}},
      {{ExampleInput::range({9}, -500, 500, DType::kI32), one(2.7), one(7, DType::kU8)}},
      {{ExampleInput::given(DType::kF32, {6}, {-1.5, -0.5, 0.5, 1.5, 2.5, 1e9}), one(1)}},
  };
}

std::vector<Example> dequantize_examples() {
  const auto x = [](Shape s, DType t) { return ExampleInput::range(std::move(s), 0, 127, t); };
  const auto one = [](double v, DType t = DType::kF32) { return ExampleInput::scalar(v, t); };
  const ExampleInput blocks = ExampleInput::range({2, 2, 3}, 0.01, 0.1);
  return {
      {{x({3, 17}, DType::kU8), one(0.0213), one(128, DType::kU8)}},
      {{x({3, 17}, DType::kI8), one(0.0113), one(-3, DType::kI8)}},
      {{x({64}, DType::kU16), one(0.05)}},
      {{x({7}, DType::kI32), one(0.001)}},
      {{x({2, 3, 4, 5}, DType::kI8), scales({0.02, 0.03, 0.05}), scales({0, 3, -5}, DType::kI8)}},
      {{x({2, 3}, DType::kI16), scales({0.02, 0.03})}, {{"axis", int64_t{-2}}}},
      {{x({2, 5, 3}, DType::kU8), blocks}, {{"block_size", 3}}},
      {{x({5}, DType::kU8), one(0.25, DType::kF16), one(3, DType::kU8)}},
  };
}

}  // namespace

std::vector<OpDef> quantize_ops() {
  const AttrSpec axis = {"axis", Kind::kInt, Attr(int64_t{1})};
  const AttrSpec block = {"block_size", Kind::kInt, Attr(int64_t{0})};
  return {
      {.name = "QuantizeLinear",
       .facts = {.onnx = 10,
                 .onnx_later = {{19, DType::kF16},
                                {19, DType::kBF16},
                                {21, DType::kI16},
                                {21, DType::kU16},
                                {.since = 21, .attribute = "block_size"},
                                {.since = 19, .attribute = "saturate"}},
                 .rank = RankRule::kFirst,
                 .own_dtype = true,
                 .per_image = each_image_off_axis_0},
       .min_inputs = 2,
       .max_inputs = 3,
       .attrs = {axis,
                 block,
                 {"output_dtype", Kind::kInt, Attr(int64_t{0})},
                 {"saturate", Kind::kInt, Attr(int64_t{1})}},
       .infer = infer_quantize,
       .reference = quantize_reference,
       .examples = quantize_examples()},
      {.name = "DequantizeLinear",
       .facts = {.onnx = 10,
                 .onnx_later = {{19, DType::kF16},
                                {19, DType::kBF16},
                                {21, DType::kI16},
                                {21, DType::kU16},
                                {.since = 21, .attribute = "block_size"}},
                 .rank = RankRule::kFirst,
                 .own_dtype = true,
                 .per_image = each_image_off_axis_0},
       .min_inputs = 2,
       .max_inputs = 3,
       .attrs = {axis, block},
       .infer = infer_dequantize,
       .reference = dequantize_reference,
       .examples = dequantize_examples()},
      {.name = "DynamicQuantizeLinear",
       .facts = {.onnx = 11, .rank = RankRule::kFirst, .own_dtype = true},
       .min_outputs = 3,
       .max_outputs = 3,
       .infer = infer_dynamic,
       .reference = dynamic_reference,
       .examples = {{.inputs = {ExampleInput::range({3, 17}, -1, 4)}, .outputs = 3},
                    {.inputs = {ExampleInput::range({40}, 2, 3)}, .outputs = 3},
                    {.inputs = {ExampleInput::range({40}, -9, -1)}, .outputs = 3},
                    {.inputs = {ExampleInput::given(DType::kF32, {2}, {0, 0})}, .outputs = 3}}},
  };
}

}  // namespace ndtrain
