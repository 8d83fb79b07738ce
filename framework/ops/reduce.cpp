// Reductions over the axes given as input 1 (absent or empty: all axes, or with
// noop_with_empty_axes none). y = finish(fold of term(x), count). Over no elements a sum is 0, a
// product 1, a maximum the lowest and a minimum the highest value of the dtype; a mean has no
// value.
#include <limits>

#include "framework/ops/common.h"

namespace ndtrain {
namespace {

// Which dims go, from the axes given.
std::vector<bool> reduced_dims(const Attrs& attrs, const Shape& x, const Ints& axes) {
  std::vector<bool> reduced(static_cast<size_t>(x.rank()), false);
  if (axes.empty()) {
    if (!attrs.flag("noop_with_empty_axes")) reduced.assign(reduced.size(), true);
    return reduced;
  }
  for (const int64_t a : axes) {
    const size_t axis = static_cast<size_t>(x.axis(a, "axes"));
    if (reduced[axis]) throw Error("axes name dim ", axis, " twice");
    reduced[axis] = true;
  }
  return reduced;
}

Shape with_ones(const Shape& x, const std::vector<bool>& reduced) {
  std::vector<int64_t> dims = x.dims();
  for (size_t d = 0; d < dims.size(); ++d) {
    if (reduced[d]) dims[d] = 1;
  }
  return Shape(std::move(dims));
}

void infer(InferContext& c) {
  const std::vector<bool> reduced =
      reduced_dims(c.attrs, c.shape(0), c.has(1) ? c.ints(1) : Ints());
  std::vector<int64_t> dims;
  for (int d = 0; d < c.shape(0).rank(); ++d) {
    if (!reduced[static_cast<size_t>(d)]) dims.push_back(c.shape(0)[d]);
    if (reduced[static_cast<size_t>(d)] && c.attrs.flag("keepdims")) dims.push_back(1);
  }
  c.out = {{c.in[0].dtype, Shape(std::move(dims))}};
}

void infer_sum(InferContext& c) {
  require(c, 0, is_wide, "a float dtype or integers of 32 or 64 bits");
  infer(c);
}

void infer_extreme(InferContext& c) {
  require(c, 0, any_dtype, "any dtype");
  infer(c);
}

double identity(double x) { return x; }
double add(double a, double b) { return a + b; }
double lowest(DType t) {
  return is_bool(t) ? 0 : rounded(-std::numeric_limits<double>::infinity(), t);
}
double highest(DType t) { return rounded(std::numeric_limits<double>::infinity(), t); }

// Calls f(index into x, index into y) for every element of x.
template <typename F>
void for_each_reduced(const ReferenceContext& c, F f) {
  const Shape kept =
      with_ones(c.shape(0), reduced_dims(c.attrs, c.shape(0), c.has(1) ? c.ints(1) : Ints()));
  const Shape shapes[] = {kept};
  for_each_broadcast(c.shape(0), shapes,
                     [&](int64_t i, std::span<const int64_t> at) { f(i, at[0]); });
}

template <auto Term, auto Fold, auto Finish>
void reduce(const ReferenceContext& c, double start) {
  std::ranges::fill(c.out[0], start);
  for_each_reduced(
      c, [&](int64_t i, int64_t o) { c.out[0][o] = Fold(c.out[0][o], Term(c.in[0][i])); });
  const double per_output =
      static_cast<double>(c.in[0].size()) / static_cast<double>(c.out[0].size());
  for (double& y : c.out[0]) y = Finish(y, per_output);
}

constexpr auto kPlain = [](double y, double) { return y; };
constexpr auto kAbs = [](double x) { return std::abs(x); };
constexpr auto kSquare = [](double x) { return x * x; };

template <auto Term, auto Finish>
void sum_of(const ReferenceContext& c) {
  reduce<Term, add, Finish>(c, 0);
}

void prod(const ReferenceContext& c) {
  reduce<identity, [](double a, double b) { return a * b; }, kPlain>(c, 1);
}

void max(const ReferenceContext& c) {
  reduce<identity, [](double a, double b) { return std::isnan(a) || a >= b ? a : b; }, kPlain>(
      c, lowest(c.in_types[0].dtype));
}

void min(const ReferenceContext& c) {
  reduce<identity, [](double a, double b) { return std::isnan(a) || a <= b ? a : b; }, kPlain>(
      c, highest(c.in_types[0].dtype));
}

// log sum exp(x) = m + log sum exp(x - m) with m the maximum, so that exp does not overflow.
void log_sum_exp(const ReferenceContext& c) {
  std::vector<double> top(c.out[0].size(), -std::numeric_limits<double>::infinity());
  for_each_reduced(c, [&](int64_t i, int64_t o) { top[o] = std::max(top[o], c.in[0][i]); });
  for (double& m : top) m = std::isfinite(m) ? m : 0;
  for_each_reduced(c, [&](int64_t i, int64_t o) { c.out[0][o] += std::exp(c.in[0][i] - top[o]); });
  for (size_t o = 0; o < top.size(); ++o) c.out[0][o] = top[o] + std::log(c.out[0][o]);
}

// `v`, which has y's elements, with reduced dims kept as 1: it broadcasts to x.
ValueId kept(GradientContext& c, ValueId v) {
  const Shape x = c.shape(c.x(0));
  Ints axes;
  if (c.has(1)) axes = c.g.value(c.x(1)).data.to_ints();
  return reshape(c.g, v, with_ones(x, reduced_dims(c.node.attrs, x, axes)));
}

ValueId full(GradientContext& c, ValueId v) {
  const Shape x = c.shape(c.x(0));
  return expand(c.g, v, x);
}

ValueId op(GradientContext& c, const char* name, ValueId a, ValueId b) {
  return c.g.add1(name, {a, b});
}

using Gradients = std::vector<ValueId>;

Gradients sum_gradient(GradientContext& c) { return {full(c, kept(c, c.dy[0]))}; }

Gradients mean_gradient(GradientContext& c) {
  const double count =
      static_cast<double>(c.shape(c.x(0)).count()) / static_cast<double>(c.shape(c.y()).count());
  const ValueId share = op(c, "Mul", c.dy[0], scalar_like(c.g, 1 / count, c.dy[0]));
  return {full(c, kept(c, share))};
}

// Elements that tie share the gradient equally.
Gradients extreme_gradient(GradientContext& c) {
  const ValueId is_extreme = op(c, "Equal", c.x(0), kept(c, c.y()));
  const ValueId ones = cast(c.g, is_extreme, c.g.type(c.x(0)).dtype);
  std::vector<ValueId> inputs = c.node.inputs;
  inputs[0] = ones;
  const ValueId ties = c.g.add1("ReduceSum", inputs, c.node.attrs);
  return {op(c, "Mul", ones, kept(c, op(c, "Div", c.dy[0], ties)))};
}

Gradients l1_gradient(GradientContext& c) {
  return {op(c, "Mul", c.g.add1("Sign", {c.x(0)}), kept(c, c.dy[0]))};
}

// dx = dy x / |x|, and 0 where all of x is.
Gradients l2_gradient(GradientContext& c) {
  const ValueId zero = scalar_like(c.g, 0, c.dy[0]);
  const ValueId slope =
      c.g.add1("Where", {op(c, "Greater", c.y(), zero), op(c, "Div", c.dy[0], c.y()), zero});
  return {op(c, "Mul", c.x(0), kept(c, slope))};
}

Gradients sum_square_gradient(GradientContext& c) {
  const ValueId twice = op(c, "Mul", c.dy[0], scalar_like(c.g, 2, c.dy[0]));
  return {op(c, "Mul", c.x(0), kept(c, twice))};
}

// dx = dy / sum = dy / e^y.
Gradients log_sum_gradient(GradientContext& c) {
  return {full(c, kept(c, op(c, "Div", c.dy[0], c.g.add1("Exp", {c.y()}))))};
}

Gradients log_sum_exp_gradient(GradientContext& c) {
  const ValueId share = c.g.add1("Exp", {op(c, "Sub", c.x(0), kept(c, c.y()))});
  return {op(c, "Mul", share, kept(c, c.dy[0]))};
}

std::vector<Example> examples(double low, double high, bool distinct) {
  using E = ExampleInput;
  const auto x = [&](Shape s, DType t = DType::kF32) {
    E e = E::range(std::move(s), low, high, t);
    e.distinct = distinct;
    return e;
  };
  const Attrs no_keep = {{"keepdims", int64_t{0}}}, noop = {{"noop_with_empty_axes", int64_t{1}}};
  std::vector<Example> list = {
      {{x({7})}},
      {{x({2, 3, 5, 4})}},
      {{x({2, 3, 5, 4})}, no_keep},
      {{x({2, 3, 5, 4}), E::ints({2, 3})}},
      {{x({2, 3, 5, 4}), E::ints({-1, 1})}, no_keep},
      {{x({2, 3, 5, 4}), E::ints({0, 2, 3})}, no_keep},
      {{x({3, 17}), E::ints({1})}},
      {{x({3, 17}), E::ints({0})}, no_keep},
      {{x({3, 2}), E::ints({})}},
      {{x({3, 2}), E::ints({})}, noop},
      {{x({3, 2})}, noop},
      {{x(Shape{})}},
      {{x({3, 1}), E::ints({1})}},
      {{x({0, 3}), E::ints({1})}},
      {{x({3, 5}, DType::kF64), E::ints({1})}},
      {{x({3, 5}, DType::kF16), E::ints({1})}},
      {{x({3, 5}, DType::kBF16), E::ints({0})}},
      {{E::range({3, 5}, 1, 4, DType::kI32), E::ints({1})}},
      {{E::range({3, 5}, 1, 4, DType::kI64), E::ints({0})}, no_keep},
  };
  return list;
}

std::vector<Example> with_empty(std::vector<Example> list) {
  list.push_back({{{2, 0, 3}, ExampleInput::ints({1})}});
  return list;
}

std::vector<Example> extreme_examples() {
  using E = ExampleInput;
  std::vector<Example> list = with_empty(examples(0, 0, true));
  for (const DType t : {DType::kI8, DType::kU8, DType::kBool}) {
    list.push_back({{{t, {3, 5}}, E::ints({1})}});
  }
  Example ties{{E::given(DType::kF32, {2, 3}, {1, 3, 3, 2, 2, 2}), E::ints({1})}};
  ties.check_gradient = false;  // at a tie there is none
  list.push_back(std::move(ties));
  return list;
}

// Which axes go is not known here; all of them bound it.
int64_t terms(const Attrs&, std::span<const TensorType> in) {
  return std::max<int64_t>(1, in[0].shape.count());
}

OpDef of_bools_since_20(OpDef def) {
  def.facts.onnx_later = {{20, DType::kBool}};
  return def;
}

OpDef reduction(std::string_view name, Sign sign, void (*inferred)(InferContext&),
                void (*reference)(const ReferenceContext&), Gradients (*gradient)(GradientContext&),
                std::vector<Example> list) {
  return {.name = name,
          .facts = {.onnx = 1, .kind = OpKind::kReduce, .sign = sign},
          .max_inputs = 2,
          .attrs = {{"keepdims", AttrSpec::Kind::kInt, Attr(int64_t{1})},
                    {"noop_with_empty_axes", AttrSpec::Kind::kInt, Attr(int64_t{0})}},
          .infer = inferred,
          .reference = reference,
          .gradient = gradient,
          .terms = terms,
          .shape_inputs = 0b10,
          .examples = std::move(list)};
}

}  // namespace

std::vector<OpDef> reduce_ops() {
  const std::vector<Example> any = with_empty(examples(0, 0, false)),
                             positive = examples(0.3, 3, false);
  return {
      reduction("ReduceSum", Sign::kAsInputs, infer_sum, sum_of<identity, kPlain>, sum_gradient,
                any),
      reduction("ReduceMean", Sign::kAsInputs, infer_sum,
                sum_of<identity, [](double y, double n) { return y / n; }>, mean_gradient,
                examples(0, 0, false)),
      of_bools_since_20(reduction("ReduceMax", Sign::kAny, infer_extreme, max, extreme_gradient,
                                  extreme_examples())),
      of_bools_since_20(reduction("ReduceMin", Sign::kAny, infer_extreme, min, extreme_gradient,
                                  extreme_examples())),
      reduction("ReduceProd", Sign::kAsInputs, infer_sum, prod, nullptr,
                with_empty(examples(0.7, 1.4, false))),
      reduction("ReduceL1", Sign::kNeverNegative, infer_sum, sum_of<kAbs, kPlain>, l1_gradient,
                any),
      reduction("ReduceL2", Sign::kNeverNegative, infer_sum,
                sum_of<kSquare, [](double y, double) { return std::sqrt(y); }>, l2_gradient, any),
      reduction("ReduceSumSquare", Sign::kNeverNegative, infer_sum, sum_of<kSquare, kPlain>,
                sum_square_gradient, any),
      reduction("ReduceLogSum", Sign::kAny, infer_sum,
                sum_of<identity, [](double y, double) { return std::log(y); }>, log_sum_gradient,
                positive),
      reduction("ReduceLogSumExp", Sign::kAny, infer_sum, log_sum_exp, log_sum_exp_gradient, any),
  };
}

}  // namespace ndtrain
