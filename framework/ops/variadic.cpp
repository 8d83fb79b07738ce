// Sum, Mean, Min and Max of one or more tensors, with NumPy's broadcasting. Min and Max hand NaN
// on; among equal extremes the first input takes the gradient.
#include "framework/core/limits.h"
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void infer(InferContext& c) {
  Shape shape = c.shape(0);
  for (size_t i = 0; i < c.in.size(); ++i) {
    if (!c.has(i)) throw Error("input ", i, " is absent");
    require_same_dtype(c, 0, i);
    shape = broadcast(shape, c.shape(i), "broadcast");
  }
  c.out = {{c.in[0].dtype, shape}};
}

void infer_float(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  infer(c);
}

void infer_number(InferContext& c) {
  require(c, 0, is_number, "a numeric dtype");
  infer(c);
}

// Folds the inputs one by one, each broadcast to the output.
template <auto F>
void fold(const ReferenceContext& c) {
  for (size_t k = 0; k < c.in.size(); ++k) {
    const Shape shapes[] = {c.shape(k)};
    for_each_broadcast(c.out_shape(), shapes, [&](int64_t i, std::span<const int64_t> at) {
      const double x = c.in[k][at[0]];
      c.out[0][i] = k == 0 ? x : F(c.out[0][i], x);
    });
  }
}

constexpr auto kAdd = [](double a, double b) { return a + b; };

void mean(const ReferenceContext& c) {
  fold<kAdd>(c);
  for (double& y : c.out[0]) y /= static_cast<double>(c.in.size());
}

ValueId of_input(GradientContext& c, size_t i, ValueId full) {
  const Shape shape = c.shape(c.x(i));
  return unbroadcast(c.g, full, shape);
}

std::vector<ValueId> sum_gradient(GradientContext& c) {
  std::vector<ValueId> dx(c.node.inputs.size(), kNone);
  for (size_t i = 0; i < dx.size(); ++i) {
    if (c.wanted[i]) dx[i] = of_input(c, i, c.dy[0]);
  }
  return dx;
}

std::vector<ValueId> mean_gradient(GradientContext& c) {
  const double share = 1.0 / static_cast<double>(c.node.inputs.size());
  const ValueId dy = c.g.add1("Mul", {c.dy[0], scalar_like(c.g, share, c.dy[0])});
  std::vector<ValueId> dx(c.node.inputs.size(), kNone);
  for (size_t i = 0; i < dx.size(); ++i) {
    if (c.wanted[i]) dx[i] = of_input(c, i, dy);
  }
  return dx;
}

// `left` is dy where no earlier input was the extreme.
std::vector<ValueId> extreme_gradient(GradientContext& c) {
  const size_t n = c.node.inputs.size();
  const ValueId zero = scalar_like(c.g, 0, c.dy[0]);
  std::vector<ValueId> dx(n, kNone);
  ValueId left = c.dy[0];
  for (size_t i = 0; i < n; ++i) {
    const ValueId is_extreme = c.g.add1("Equal", {c.x(i), c.y()});
    if (c.wanted[i]) dx[i] = of_input(c, i, c.g.add1("Where", {is_extreme, left, zero}));
    if (i + 1 < n) left = c.g.add1("Where", {is_extreme, zero, left});
  }
  return dx;
}

std::vector<Example> float_examples() {
  return {
      {{{7}}},
      {{{2, 3, 4}, {2, 3, 4}}},
      {{{2, 3, 4}, {4}, {3, 1}}},
      {{{3}, {2, 1}, Shape{}}},
      {{{4}, {4}, {4}, {4}, {4}}},
      {{Shape{}}},
      {{{0, 2}, {2}}},
      {{{DType::kF64, {3, 2}}, {DType::kF64, {2}}}},
      {{{DType::kF16, {3, 2}}, {DType::kF16, {2}}}},
      {{{DType::kBF16, {3, 2}}, {DType::kBF16, {2}}}},
  };
}

std::vector<Example> number_examples() {
  std::vector<Example> e = float_examples();
  for (const DType t : {DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32, DType::kU32,
                        DType::kI64, DType::kU64}) {
    e.push_back({{{t, {3, 5}}, {t, {5}}, {t, {3, 1}}}});
  }
  return e;
}

OpDef variadic(std::string_view name, Rounding rounding, void (*inferred)(InferContext&),
               void (*reference)(const ReferenceContext&),
               std::vector<ValueId> (*gradient)(GradientContext&), std::vector<Example> examples) {
  return {.name = name,
          .facts = mapping({.onnx = 1, .rounding = rounding, .sign = Sign::kAsInputs}),
          .max_inputs = limits::kPorts,
          .infer = inferred,
          .reference = reference,
          .gradient = gradient,
          .examples = std::move(examples)};
}

}  // namespace

std::vector<OpDef> variadic_ops() {
  return {
      variadic("Sum", Rounding::kRounds, infer_float, fold<kAdd>, sum_gradient, float_examples()),
      variadic("Mean", Rounding::kRounds, infer_float, mean, mean_gradient, float_examples()),
      variadic("Max", Rounding::kExact, infer_number,
               fold<[](double a, double b) { return std::isnan(a) || a >= b ? a : b; }>,
               extreme_gradient, number_examples()),
      variadic("Min", Rounding::kExact, infer_number,
               fold<[](double a, double b) { return std::isnan(a) || a <= b ? a : b; }>,
               extreme_gradient, number_examples()),
  };
}

}  // namespace ndtrain
