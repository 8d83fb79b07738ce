// Ops along one axis and on matrices that networks seldom have. CumProd: y[k] = x[0] * … * x[k];
// exclusive leaves the element itself out, reverse begins at the end. ReverseSequence: the first
// lengths[b] steps of image b in the opposite order. Det: the determinant of the last two dims.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

using Kind = AttrSpec::Kind;

void cum_prod_infer(InferContext& c) {
  require(c, 0, is_wide, "a float dtype or integers of 32 or 64 bits");
  const Ints axis = c.ints(1);
  if (axis.size() != 1) throw Error("the axis is ", c.in[1], ", must be one number");
  c.shape(0).axis(axis[0], "axis");
  c.out = {c.in[0]};
}

void cum_prod_reference(const ReferenceContext& c) {
  const Shape& x = c.shape(0);
  const int axis = x.axis(c.ints(1)[0], "axis");
  const int64_t n = x[axis], inner = x.count(axis + 1, x.rank());
  const bool exclusive = c.attrs.flag("exclusive"), reverse = c.attrs.flag("reverse");
  for (int64_t line = 0; line < x.count(0, axis) * inner; ++line) {
    const int64_t start = line / inner * n * inner + line % inner;
    double product = 1;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t at = start + (reverse ? n - 1 - k : k) * inner;
      const double next = product * c.in[0][at];
      c.out[0][at] = exclusive ? product : next;
      product = next;
    }
  }
}

int64_t longest(const Attrs&, std::span<const TensorType> in) {
  int64_t n = 1;
  for (const int64_t d : in[0].shape.dims()) n = std::max(n, d);
  return n;
}

void reverse_infer(InferContext& c) {
  const int64_t batch = c.attrs.i("batch_axis"), time = c.attrs.i("time_axis");
  if (c.shape(0).rank() < 2 || batch == time || batch < 0 || batch > 1 || time < 0 || time > 1) {
    throw Error("batch_axis ", batch, " and time_axis ", time, " must be 0 and 1 of ", c.in[0]);
  }
  if (c.in[1] != TensorType{DType::kI64, {c.shape(0)[static_cast<int>(batch)]}}) {
    throw Error("sequence_lens is ", c.in[1], ", must be one i64 for each image of ", c.in[0]);
  }
  c.out = {c.in[0]};
}

void reverse_reference(const ReferenceContext& c) {
  const Shape& x = c.shape(0);
  const bool batch_first = c.attrs.i("batch_axis") == 0;
  const int64_t inner = x.count(2, x.rank()), steps = x[batch_first ? 1 : 0];
  for (int64_t row = 0; row < x[0] * x[1]; ++row) {
    const int64_t b = batch_first ? row / x[1] : row % x[1];
    const int64_t t = batch_first ? row % x[1] : row / x[1];
    const auto length = static_cast<int64_t>(c.in[1][static_cast<size_t>(b)]);
    if (length < 0 || length > steps) throw Error("a length is ", length, " of ", steps, " steps");
    const int64_t from = t < length ? length - 1 - t : t;
    const int64_t other = batch_first ? b * x[1] + from : from * x[1] + b;
    for (int64_t i = 0; i < inner; ++i) c.out[0][row * inner + i] = c.in[0][other * inner + i];
  }
}

std::vector<ValueId> reverse_gradient(GradientContext& c) {
  return {c.g.add1("ReverseSequence", {c.dy[0], c.x(1)}, c.node.attrs), kNone};
}

void det_infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  const Shape& x = c.shape(0);
  if (x.rank() < 2 || x[-1] != x[-2]) throw Error("input ", x, " has no square matrices");
  c.out = {{c.in[0].dtype, Shape(Ints(x.dims().begin(), x.dims().end() - 2))}};
}

// By elimination, the largest element of a column first.
double determinant(std::vector<double> m, size_t n) {
  double det = 1;
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t r = k + 1; r < n; ++r) {
      if (std::abs(m[r * n + k]) > std::abs(m[pivot * n + k])) pivot = r;
    }
    if (m[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      std::swap_ranges(m.begin() + static_cast<ptrdiff_t>(k * n),
                       m.begin() + static_cast<ptrdiff_t>((k + 1) * n),
                       m.begin() + static_cast<ptrdiff_t>(pivot * n));
      det = -det;
    }
    det *= m[k * n + k];
    for (size_t r = k + 1; r < n; ++r) {
      const double factor = m[r * n + k] / m[k * n + k];
      for (size_t j = k; j < n; ++j) m[r * n + j] -= factor * m[k * n + j];
    }
  }
  return det;
}

void det_reference(const ReferenceContext& c) {
  const auto n = static_cast<size_t>(c.shape(0)[-1]);
  for (size_t i = 0; i < c.out[0].size(); ++i) {
    const auto from = c.in[0].begin() + static_cast<ptrdiff_t>(i * n * n);
    c.out[0][i] = determinant({from, from + static_cast<ptrdiff_t>(n * n)}, n);
  }
}

std::vector<Example> cum_prod_examples() {
  using E = ExampleInput;
  const Attrs both = {{"exclusive", int64_t{1}}, {"reverse", int64_t{1}}};
  return {{{{5}, E::scalar(0, DType::kI64)}},
          {{{2, 3}, E::scalar(-1, DType::kI32)}, {{"exclusive", int64_t{1}}}},
          {{{2, 3}, E::scalar(0, DType::kI64)}, {{"reverse", int64_t{1}}}},
          {{{2, 3, 2}, E::ints({1})}, both},
          {{{DType::kI32, {2, 3}}, E::ints({1})}}};
}

std::vector<Example> reverse_examples() {
  using E = ExampleInput;
  const Attrs batch_first{{"batch_axis", int64_t{0}}, {"time_axis", int64_t{1}}};
  const E four = E::given(DType::kI64, {4}, {4, 3, 2, 1}), two = E::given(DType::kI64, {2}, {3, 0});
  return in_moved_dtypes({{{{4, 4}, four}}, {{{2, 3, 2}, two}, batch_first}}, [](DType t) {
    return Example{{{t, {3, 2}}, E::given(DType::kI64, {2}, {2, 3})}};
  });
}

}  // namespace

std::vector<OpDef> sequence_ops() {
  return {
      {.name = "CumProd",
       .facts = {.onnx = 26, .rank = RankRule::kFirst},
       .min_inputs = 2,
       .max_inputs = 2,
       .attrs = {{"exclusive", Kind::kInt, Attr(int64_t{0})},
                 {"reverse", Kind::kInt, Attr(int64_t{0})}},
       .infer = cum_prod_infer,
       .reference = cum_prod_reference,
       .terms = longest,
       .shape_inputs = 0b10,
       .by_reference = true,
       .examples = cum_prod_examples()},
      {.name = "ReverseSequence",
       .facts = moving({.onnx = 10, .rank = RankRule::kFirst}),
       .min_inputs = 2,
       .max_inputs = 2,
       .attrs = {{"batch_axis", Kind::kInt, Attr(int64_t{1})},
                 {"time_axis", Kind::kInt, Attr(int64_t{0})}},
       .infer = reverse_infer,
       .reference = reverse_reference,
       .gradient = reverse_gradient,
       .by_reference = true,
       .examples = reverse_examples()},
      {.name = "Det",
       .facts = {.onnx = 11},
       .infer = det_infer,
       .reference = det_reference,
       .by_reference = true,
       .examples = {{{{3, 3}}}, {{{2, 2, 4, 4}}}, {{{DType::kF64, {1, 1}}}}}},
  };
}

}  // namespace ndtrain
