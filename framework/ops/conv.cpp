// Conv: y[n,m,o] = b[m] + sum over c, k of x[n,c,o*stride+k*dilation-pad] * w[m,c,k], c in the
// group of m (ONNX Conv). Beside bf16 the bias may be f32, as sums are.
#include "framework/ops/conv.h"

#include <algorithm>

#include "framework/ops/common.h"

namespace ndtrain {

std::vector<AttrSpec> conv_attrs(std::vector<AttrSpec> more) {
  more.insert(more.begin(), {"group", AttrSpec::Kind::kInt, Attr(int64_t{1})});
  return window_attrs(std::move(more));
}

ConvShape conv_shape(const Attrs& a, const Shape& x, const Shape& w) {
  ConvShape s{.window = window_of(a, x), .n = x[0], .groups = a.i("group")};
  if (w.rank() != x.rank()) throw Error("weight ", w, " does not have the rank of input ", x);
  if (s.groups < 1 || w[0] % s.groups != 0) {
    throw Error("group ", s.groups, " does not divide the ", w[0], " output channels of weight ",
                w);
  }
  if (x[1] % s.groups != 0 || w[1] != x[1] / s.groups) {
    throw Error("input ", x, " in ", s.groups, " groups does not have the ", w[1],
                " channels per group of weight ", w);
  }
  if (!std::equal(s.window.kernel.begin(), s.window.kernel.end(), w.dims().begin() + 2)) {
    throw Error("kernel_shape ", Shape(s.window.kernel), " is not that of weight ", w);
  }
  s.out_channels = w[0] / s.groups;
  s.in_channels = w[1];
  return s;
}

void check_conv_bias(const InferContext& c, size_t i, const Shape& y) {
  if (c.has(i) && c.shape(i) != Shape{y[1]}) {
    throw Error("bias ", c.shape(i), " is not one value for each of ", y[1], " output channels");
  }
}

void check_residual(const InferContext& c, size_t i, const Shape& y) {
  if (c.has(i) && c.shape(i) != y) {
    throw Error("residual ", c.shape(i), " does not have the shape of the output ", y);
  }
}

namespace {

void infer(InferContext& c) {
  require(c, 0, is_float, "floating point");
  for (size_t i = 1; i < c.in.size(); ++i) {
    const bool wide_bias = i == 2 && is_half(c.in[0].dtype) && c.in[2].dtype == DType::kF32;
    if (!wide_bias) require_same_dtype(c, 0, i);
  }
  const Shape y = conv_shape(c.attrs, c.shape(0), c.shape(1)).output();
  check_conv_bias(c, 2, y);
  c.out.push_back({c.in[0].dtype, y});
}

void reference(const ReferenceContext& c) {
  const ConvShape s = conv_shape(c.attrs, c.shape(0), c.shape(1));
  std::vector<double>& y = c.out[0];
  if (c.has(2)) {
    const int64_t plane = s.window.out_count(), m = c.in[2].size();
    for (size_t i = 0; i < y.size(); ++i) y[i] = c.in[2][static_cast<int64_t>(i) / plane % m];
  }
  for_each_product(s, [&](int64_t o, int64_t i, int64_t k) { y[o] += c.in[0][i] * c.in[1][k]; });
}

std::vector<ValueId> gradient(GradientContext& c) {
  std::vector<ValueId> grads(c.node.inputs.size(), kNone);
  const Attrs attrs = c.node.attrs;
  if (c.wanted[0]) {
    Attrs with_shape = attrs;
    with_shape.set("input_shape", c.shape(c.x(0)).dims());
    grads[0] = c.g.add1("ConvGradInput", {c.dy[0], c.x(1)}, with_shape);
  }
  if (c.wanted[1]) grads[1] = c.g.add1("ConvGradWeight", {c.x(0), c.dy[0]}, attrs);
  if (c.has(2) && c.wanted[2]) {
    const ValueId axes = c.g.add_constant("", all_but_channels(c.shape(c.dy[0])));
    const ValueId sum = c.g.add1("ReduceSum", {c.dy[0], axes}, {{"keepdims", 0}});
    grads[2] = cast(c.g, sum, c.g.type(c.x(2)).dtype);  // a bias may be wider than the rest
  }
  return grads;
}

int64_t terms(const Attrs& a, std::span<const TensorType> in) {
  return conv_shape(a, in[0].shape, in[1].shape).terms();
}

std::vector<Example> examples() {
  return {
      {{{1, 3, 5, 5}, {4, 3, 3, 3}}},
      {{{3, 2, 6, 7}, {4, 2, 3, 3}, {4}}, {{"pads", Ints{1, 1, 1, 1}}}},
      {{{1, 8, 4, 5}, {6, 8, 1, 1}, {6}}},
      {{{2, 8, 5, 5}, {6, 8, 1, 1}, {6}}, {{"strides", Ints{2, 2}}}},
      {{{1, 4, 7, 6}, {6, 2, 3, 2}, {6}}, {{"group", 2}, {"strides", Ints{2, 1}}}},
      {{{2, 5, 6, 6}, {5, 1, 3, 3}, {5}}, {{"group", 5}, {"pads", Ints{1, 1, 1, 1}}}},
      {{{1, 3, 9, 8}, {6, 1, 3, 3}},
       {{"group", 3}, {"strides", Ints{2, 2}}, {"pads", Ints{0, 1, 1, 0}}}},
      {{{1, 2, 9, 9}, {3, 2, 3, 3}, {3}}, {{"dilations", Ints{2, 3}}, {"pads", Ints{2, 3, 1, 0}}}},
      {{{1, 2, 7, 8}, {3, 2, 3, 4}}, {{"auto_pad", "SAME_UPPER"}, {"strides", Ints{2, 3}}}},
      {{{1, 2, 7, 8}, {3, 2, 2, 3}}, {{"auto_pad", "SAME_LOWER"}, {"strides", Ints{2, 2}}}},
      {{{2, 2, 7, 7}, {3, 2, 3, 3}}, {{"auto_pad", "VALID"}, {"strides", Ints{2, 2}}}},
      {{{1, 3, 30, 30}, {16, 3, 7, 7}, {16}},
       {{"strides", Ints{2, 2}}, {"pads", Ints{3, 3, 3, 3}}}},
      {{{2, 3, 10}, {4, 3, 3}, {4}}, {{"pads", Ints{1, 2}}, {"strides", Ints{2}}}},
      {{{1, 4, 11}, {4, 1, 3}}, {{"group", 4}, {"dilations", Ints{3}}}},
      {{{DType::kF64, {2, 3, 5, 5}}, {DType::kF64, {4, 3, 2, 3}}, {DType::kF64, {4}}}},
  };
}

// The shapes kernels may leave out: three spatial dims, halves.
std::vector<Example> rare_examples() {
  return {
      {{{2, 2, 4, 5, 3}, {4, 1, 2, 3, 2}, {4}},
       {{"group", 2}, {"strides", Ints{1, 2, 1}}, {"pads", Ints{1, 0, 1, 0, 1, 0}}}},
      {.inputs = {{DType::kF16, {1, 3, 5, 5}}, {DType::kF16, {4, 3, 3, 3}}, {DType::kF16, {4}}},
       .check_gradient = false},
      {.inputs = {{DType::kBF16, {2, 5, 6, 5}}, {DType::kBF16, {4, 5, 3, 3}}, {DType::kF32, {4}}},
       .attrs = {{"pads", Ints{1, 1, 1, 1}}},
       .check_gradient = false},
      {.inputs = {{DType::kBF16, {1, 4, 6, 5}}, {DType::kBF16, {4, 1, 3, 3}}},
       .attrs = {{"group", 4}},
       .check_gradient = false},
  };
}

}  // namespace

std::vector<OpDef> conv_ops() {
  std::vector<Example> conv = examples();
  for (Example& e : rare_examples()) conv.push_back(std::move(e));
  return {
      {.name = "Conv",
       .facts = {.onnx = 1,
                 .onnx_later = kBf16Since22,
                 .kind = OpKind::kProduct,
                 .rounding = Rounding::kRounds,
                 .wide_inputs = 0b100,
                 .rank = RankRule::kFirst,
                 .per_image = each_image},
       .min_inputs = 2,
       .max_inputs = 3,
       .attrs = conv_attrs(),
       .complete = complete_conv,
       .infer = infer,
       .reference = reference,
       .gradient = gradient,
       .terms = terms,
       .examples = std::move(conv)},
  };
}

}  // namespace ndtrain
