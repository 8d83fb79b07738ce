// Ops met in shape arithmetic and mask making; where all is known folding runs their references,
// and no backend has them.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

// Range: start, start + delta, … up to but without limit.
void range_infer(InferContext& c) {
  double v[3];
  for (size_t i = 0; i < 3; ++i) {
    require_same_dtype(c, 0, i);
    if (i >= c.known.size() || !c.known[i].defined()) throw Error("input ", i, " must be known");
    if (c.shape(i).count() != 1) throw Error("input ", i, " is ", c.in[i], ", must be one number");
    v[i] = c.known[i].to_doubles()[0];
  }
  const double count = std::max(0.0, std::ceil((v[1] - v[0]) / v[2]));
  if (v[2] == 0 || !(count < 1e15)) {
    throw Error("no range from ", v[0], " to ", v[1], " by ", v[2]);
  }
  c.out = {{c.in[0].dtype, {static_cast<int64_t>(count)}}};
}

void range_reference(const ReferenceContext& c) {
  for (size_t i = 0; i < c.out[0].size(); ++i) {
    c.out[0][i] = c.in[0][0] + static_cast<double>(i) * c.in[2][0];
  }
}

// NonZero: coordinates of the elements that are not 0, one row per dim, in row-major order.
void non_zero_infer(InferContext& c) {
  if (c.known.empty() || !c.known[0].defined()) throw Error("input 0 must be known in advance");
  int64_t n = 0;
  for (const double v : c.known[0].to_doubles()) n += v != 0 ? 1 : 0;
  c.out = {{DType::kI64, {c.shape(0).rank(), n}}};
}

void non_zero_reference(const ReferenceContext& c) {
  const Shape& x = c.shape(0);
  const int64_t n = x.rank() == 0 ? 0 : c.out_shape()[1];
  int64_t found = 0;
  for (int64_t i = 0; i < x.count(); ++i) {
    if (c.in[0][i] == 0) continue;
    int64_t rest = i;
    for (int d = x.rank() - 1; d >= 0; --d) {
      c.out[0][d * n + found] = static_cast<double>(rest % x[d]);
      rest /= x[d];
    }
    ++found;
  }
}

// Trilu: the triangle on and above (upper) or below diagonal k of the last two dims, else 0.
void trilu_infer(InferContext& c) {
  if (c.shape(0).rank() < 2) throw Error("the input is ", c.in[0], ", must have rank 2 or more");
  if (c.has(1) && (c.in[1].dtype != DType::kI64 || c.shape(1).count() != 1)) {
    throw Error("k is ", c.in[1], ", must be one i64");
  }
  c.out = {c.in[0]};
}

void trilu_reference(const ReferenceContext& c) {
  const int64_t rows = c.shape(0)[-2], columns = c.shape(0)[-1];
  const bool upper = c.attrs.flag("upper");
  // As doubles: k is anybody's number and must not overflow.
  const double k = c.has(1) ? c.in[1][0] : 0;
  for (int64_t i = 0; i < c.shape(0).count(); ++i) {
    const double above = static_cast<double>(i % columns - i / columns % rows) - k;
    c.out[0][i] = (upper ? above >= 0 : above <= 0) ? c.in[0][i] : 0;
  }
}

// OneHot: the indices' shape with `depth` places inserted at axis; values are [off, on]. An index
// out of range lights none.
void one_hot_infer(InferContext& c) {
  if (c.known.size() < 2 || !c.known[1].defined())
    throw Error("the depth must be known in advance");
  if (c.shape(1).count() != 1) throw Error("the depth is ", c.in[1], ", must be one number");
  if (c.shape(2).count() != 2) throw Error("values are ", c.in[2], ", must be [off, on]");
  const double depth = c.known[1].to_doubles()[0];
  if (!(depth >= 1 && depth < 1e15)) throw Error("the depth is ", depth);
  std::vector<int64_t> dims = c.shape(0).dims();
  const int64_t rank = c.shape(0).rank(), axis = c.attrs.i("axis");
  if (axis < -rank - 1 || axis > rank) throw Error("axis is ", axis, ", indices are ", c.in[0]);
  dims.insert(dims.begin() + (axis < 0 ? axis + rank + 1 : axis), static_cast<int64_t>(depth));
  c.out = {{c.in[2].dtype, Shape(std::move(dims))}};
}

Tensor pair_of(DType t, double off, double on) {
  const std::vector<double> values = {off, on};
  return Tensor::from_doubles({t, Shape{2}}, values);
}

void one_hot_reference(const ReferenceContext& c) {
  const Shape& y = c.out_shape();
  const int axis = y.axis(c.attrs.i("axis"), "axis");
  const int64_t depth = y[axis], inner = y.count(axis + 1, y.rank());
  for (int64_t i = 0; i < y.count(); ++i) {
    const double index = c.in[0][i / (inner * depth) * inner + i % inner];
    const double place = static_cast<double>(i / inner % depth);
    const double wanted = index < 0 ? index + static_cast<double>(depth) : index;
    c.out[0][i] = c.in[2][std::trunc(wanted) == place ? 1 : 0];
  }
}

// [off, on] from how often each was written.
std::vector<ValueId> one_hot_gradient(GradientContext& c) {
  const ValueId lit = c.g.add1(
      "OneHot", {c.x(0), c.x(1), c.g.add_constant("", pair_of(c.g.type(c.x(2)).dtype, 0, 1))},
      c.node.attrs);
  const ValueId dark = c.g.add1(
      "OneHot", {c.x(0), c.x(1), c.g.add_constant("", pair_of(c.g.type(c.x(2)).dtype, 1, 0))},
      c.node.attrs);
  const auto sum = [&](ValueId mask) {
    const ValueId all = c.g.add1("ReduceSum", {c.g.add1("Mul", {c.dy[0], mask})});
    return reshape(c.g, all, Shape{1});
  };
  return {kNone, kNone, c.g.add1("Concat", {sum(dark), sum(lit)}, {{"axis", int64_t{0}}})};
}

std::vector<ValueId> trilu_gradient(GradientContext& c) {
  std::vector<ValueId> in = {c.dy[0]};
  if (c.has(1)) in.push_back(c.x(1));
  return {c.g.add1("Trilu", in, c.node.attrs), kNone};
}

std::vector<OpDef> makers() {
  using E = ExampleInput;
  using Kind = AttrSpec::Kind;
  const auto known = [](E e) {
    e.known = true;
    return e;
  };
  return {
      {.name = "Range",
       .facts = {.onnx = 11, .onnx_later = {{27, DType::kF16}, {27, DType::kBF16}}},
       .min_inputs = 3,
       .max_inputs = 3,
       .infer = range_infer,
       .reference = range_reference,
       .shape_inputs = 0b111,
       .reference_only = true,
       .examples =
           {{{E::scalar(1), E::scalar(5), E::scalar(2)}},
            {{E::scalar(10, DType::kI32), E::scalar(4, DType::kI32), E::scalar(-2, DType::kI32)}},
            {{E::scalar(3, DType::kI64), E::scalar(3, DType::kI64), E::scalar(1, DType::kI64)}},
            {{E::scalar(0, DType::kF64), E::scalar(1, DType::kF64), E::scalar(0.3, DType::kF64)}}}},
      {.name = "NonZero",
       .facts = {.onnx = 9, .own_dtype = true},
       .infer = non_zero_infer,
       .reference = non_zero_reference,
       .shape_inputs = 0b1,
       .reference_only = true,
       .examples = {{{known(E::given(DType::kBool, {2, 2}, {1, 0, 1, 1}))}},
                    {{known(E::given(DType::kF32, {3}, {0, 0, 0}))}},
                    {{known(E::given(DType::kI64, {1, 2, 2}, {0, 5, -1, 0}))}}}},
      {.name = "OneHot",
       .facts = {.onnx = 9, .onnx_later = {{28, DType::kBF16}}, .own_dtype = true},
       .min_inputs = 3,
       .max_inputs = 3,
       .attrs = {{"axis", Kind::kInt, Attr(int64_t{-1})}},
       .infer = one_hot_infer,
       .reference = one_hot_reference,
       .gradient = one_hot_gradient,
       .shape_inputs = 0b10,
       .by_reference = true,
       .examples = {{{E::given(DType::kI64, {3}, {0, -1, 7}), E::scalar(4, DType::kI64), {2}}},
                    {{E::range({2, 3}, 0, 3, DType::kI64), E::scalar(4, DType::kI64), {2}},
                     {{"axis", int64_t{1}}}}}},
  };
}

std::vector<OpDef> masks() {
  using E = ExampleInput;
  using Kind = AttrSpec::Kind;
  const Attrs lower = {{"upper", int64_t{0}}};
  return {
      {.name = "Trilu",
       .facts = {.onnx = 14, .sign = Sign::kAsInputs, .rank = RankRule::kFirst},
       .max_inputs = 2,
       .attrs = {{"upper", Kind::kInt, Attr(int64_t{1})}},
       .infer = trilu_infer,
       .reference = trilu_reference,
       .gradient = trilu_gradient,
       .by_reference = true,
       .examples = {{{{4, 5}}},
                    {{{4, 5}}, lower},
                    {{{2, 4, 3}, E::scalar(1, DType::kI64)}},
                    {{{2, 4, 3}, E::scalar(-2, DType::kI64)}, lower},
                    {{{DType::kI64, {3, 3}}, E::scalar(7, DType::kI64)}},
                    {{{DType::kBool, {0, 3}}}}}},
  };
}

}  // namespace

std::vector<OpDef> index_arithmetic_ops() {
  std::vector<OpDef> ops = makers();
  for (OpDef& op : masks()) ops.push_back(std::move(op));
  return ops;
}

}  // namespace ndtrain
