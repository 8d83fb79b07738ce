// Shape and Size of x, EyeLike (1 on diagonal k), Constant and ConstantOfShape. What is known when
// the graph is built becomes a constant there and leaves no node.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

// Shape's start and end, clamped to the dims of x; a missing end is all of them.
void shape_infer(InferContext& c) {
  const int64_t rank = c.shape(0).rank();
  const auto clamped = [&](int64_t v) {
    return std::max<int64_t>(0, std::min(rank, v < 0 ? v + rank : v));
  };
  const int64_t start = clamped(c.attrs.i("start"));
  const int64_t end = c.attrs.has("end") ? clamped(c.attrs.i("end")) : rank;
  std::vector<int64_t> dims;
  for (int64_t d = start; d < end; ++d) dims.push_back(c.shape(0)[static_cast<int>(d)]);
  c.out = {{DType::kI64, {static_cast<int64_t>(dims.size())}}};
  c.out_known = {Tensor::i64(dims)};
}

void shape_reference(const ReferenceContext& c) {
  const int64_t rank = c.shape(0).rank(), start = c.attrs.i("start");
  const int64_t from = std::max<int64_t>(0, start < 0 ? start + rank : start);
  for (size_t i = 0; i < c.out[0].size(); ++i) {
    c.out[0][i] = static_cast<double>(c.shape(0)[static_cast<int>(from) + static_cast<int>(i)]);
  }
}

void size_infer(InferContext& c) {
  c.out = {{DType::kI64, {}}};
  c.out_known = {Tensor::i64({c.shape(0).count()}).reshaped({})};
}

void size_reference(const ReferenceContext& c) {
  c.out[0][0] = static_cast<double>(c.shape(0).count());
}

TensorType eye_type(const Attrs& a, const TensorType& x) {
  if (x.shape.rank() != 2) throw Error("input ", x, " is no matrix");
  const auto dtype = static_cast<DType>(a.i("dtype"));
  return {dtype == DType::kNone ? x.dtype : dtype, x.shape};
}

std::vector<double> eye(const Shape& s, int64_t k) {
  std::vector<double> values(static_cast<size_t>(s.count()));
  for (int64_t row = std::max<int64_t>(0, -k); row < s[0] && row + k < s[1]; ++row) {
    values[static_cast<size_t>(row * s[1] + row + k)] = 1;
  }
  return values;
}

void eye_infer(InferContext& c) {
  const TensorType type = eye_type(c.attrs, c.in[0]);
  if (type.shape.count() > (int64_t{1} << 26)) throw Error("a constant ", type, " is too large");
  const int64_t k = std::clamp<int64_t>(c.attrs.i("k"), -type.shape[0], type.shape[1]);
  c.out = {type};
  c.out_known = {Tensor::from_doubles(type, eye(type.shape, k))};
}

void eye_reference(const ReferenceContext& c) {
  c.out[0] = eye(c.shape(0), std::clamp<int64_t>(c.attrs.i("k"), -c.shape(0)[0], c.shape(0)[1]));
}

// The one attribute of a Constant that is there.
Tensor constant_value(const Attrs& attrs) {
  if (attrs.size() != 1) throw Error(attrs.size(), " values are given, must be one");
  const auto floats = [](const Floats& v, Shape s) {
    return Tensor::from_doubles({DType::kF32, std::move(s)}, v);
  };
  if (attrs.has("value")) return attrs.tensor("value");
  if (attrs.has("value_int")) return Tensor::i64({attrs.i("value_int")}).reshaped({});
  if (attrs.has("value_ints")) return Tensor::i64(attrs.ints("value_ints"));
  if (attrs.has("value_float")) return floats({attrs.f("value_float")}, {});
  const Floats& list = attrs.floats("value_floats");
  return floats(list, {static_cast<int64_t>(list.size())});
}

void constant_infer(InferContext& c) {
  const Tensor value = constant_value(c.attrs);
  if (!value.defined()) throw Error("the value has no data");
  c.out = {value.type()};
  c.out_known = {value};
}

void constant_reference(const ReferenceContext& c) {
  c.out[0] = constant_value(c.attrs).to_doubles();
}

DType fill_dtype(const Attrs& attrs) {
  if (!attrs.has("value")) return DType::kF32;
  const Tensor& value = attrs.tensor("value");
  if (!value.defined() || value.shape().count() != 1) {
    throw Error("value is ", value.type(), ", must be one number");
  }
  return value.type().dtype;
}

void constant_of_shape_infer(InferContext& c) {
  require(c, 0, is_integer, "an integer dtype");
  c.out = {{fill_dtype(c.attrs), Shape(c.ints(0))}};
}

void constant_of_shape_reference(const ReferenceContext& c) {
  const double value = c.attrs.has("value") ? c.attrs.tensor("value").to_doubles()[0] : 0;
  std::ranges::fill(c.out[0], value);
}

std::vector<Example> constant_examples() {
  const Tensor t = Tensor::of<int32_t>(DType::kI32, {2, 2}, {1, -2, 3, 4});
  return {{{}, {{"value", t}}},
          {{}, {{"value_int", int64_t{-3}}}},
          {{}, {{"value_ints", Ints{1, 2, 3}}}},
          {{}, {{"value_float", 0.5}}},
          {{}, {{"value_floats", Floats{0.5, -1.5}}}}};
}

std::vector<Example> constant_of_shape_examples() {
  using E = ExampleInput;
  const auto value = [](DType t, double v) {
    const std::vector<double> one = {v};
    return Attrs{{"value", Tensor::from_doubles({t, {1}}, one)}};
  };
  return {{{E::ints({2, 3})}},
          {{E::ints({2, 3})}, value(DType::kF32, 1.5)},
          {{E::ints({})}, value(DType::kI32, 7)},
          {{E::ints({0, 4})}, value(DType::kI64, 1)},
          {{E::ints({5})}, value(DType::kBool, 1)},
          {{E::ints({5})}, value(DType::kF16, 0.25)}};
}

}  // namespace

std::vector<OpDef> shape_ops() {
  using Kind = AttrSpec::Kind;
  const auto from = [](int64_t start) { return Attrs{{"start", start}}; };
  const auto between = [](int64_t start, int64_t end) {
    return Attrs{{"start", start}, {"end", end}};
  };
  return {
      {.name = "Shape",
       .facts = {.onnx = 1, .own_dtype = true},
       .attrs = {{"start", Kind::kInt, Attr(int64_t{0})}, {"end", Kind::kInt}},
       .infer = shape_infer,
       .reference = shape_reference,
       .examples = {{{{2, 3, 4}}},
                    {{{2, 3, 4}}, from(1)},
                    {{{2, 3, 4}}, from(-2)},
                    {{{2, 3, 4}}, between(0, -1)},
                    {{{2, 3, 4}}, between(-9, 9)},
                    {{{2, 3, 4}}, between(2, 1)},
                    {{{DType::kBool, {0, 3}}}},
                    {{Shape{}}}}},
      {.name = "Size",
       .facts = {.onnx = 1, .own_dtype = true},
       .infer = size_infer,
       .reference = size_reference,
       .examples = {{{{2, 3, 4}}}, {{Shape{}}}, {{{DType::kI8, {0, 3}}}}}},
      {.name = "EyeLike",
       .facts =
           {.onnx = 9, .onnx_later = kBf16Since22, .rank = RankRule::kFirst, .own_dtype = true},
       .attrs = {{"dtype", Kind::kInt, Attr(int64_t{0})}, {"k", Kind::kInt, Attr(int64_t{0})}},
       .infer = eye_infer,
       .reference = eye_reference,
       .by_reference = true,
       .examples = {{{{3, 4}}},
                    {{{3, 4}}, {{"k", int64_t{2}}}},
                    {{{4, 2}}, {{"k", int64_t{-3}}}},
                    {{{DType::kI32, {2, 2}}}, {{"k", int64_t{9}}}}}},
      {.name = "Constant",
       .facts = {.onnx = 1, .own_dtype = true},
       .min_inputs = 0,
       .max_inputs = 0,
       .attrs = {{"value", Kind::kTensor},
                 {"value_int", Kind::kInt},
                 {"value_ints", Kind::kInts},
                 {"value_float", Kind::kFloat},
                 {"value_floats", Kind::kFloats}},
       .infer = constant_infer,
       .reference = constant_reference,
       .examples = constant_examples()},
      {.name = "ConstantOfShape",
       .facts = {.onnx = 9, .onnx_later = {{20, DType::kBF16}}, .own_dtype = true},
       .attrs = {{"value", Kind::kTensor}},
       .infer = constant_of_shape_infer,
       .reference = constant_of_shape_reference,
       .shape_inputs = 0b1,
       .reference_only = true,
       .examples = constant_of_shape_examples()},
  };
}

}  // namespace ndtrain
