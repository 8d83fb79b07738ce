// Arithmetic on two tensors with NumPy's broadcasting: y = a ∘ b. Integers wrap; integer division
// truncates towards zero, and by zero gives 0 (ONNX leaves it open; a crash is no answer).
#include <limits>

#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void infer_broadcast(InferContext& c) {
  c.out = {{c.in[0].dtype, broadcast(c.shape(0), c.shape(1), "broadcast")}};
}

void infer_arithmetic(InferContext& c) {
  require(c, 0, is_number, "a numeric dtype");
  require_same_dtype(c, 0, 1);
  infer_broadcast(c);
}

// The base decides the dtype of a power.
void infer_pow(InferContext& c) {
  require(c, 0, is_number, "a numeric dtype");
  require(c, 1, is_number, "a numeric dtype");
  infer_broadcast(c);
}

template <auto F>
void map2(const ReferenceContext& c) {
  const Shape shapes[] = {c.shape(0), c.shape(1)};
  for_each_broadcast(c.out_shape(), shapes, [&](int64_t i, std::span<const int64_t> at) {
    c.out[0][i] = F(c.in[0][at[0]], c.in[1][at[1]]);
  });
}

void div_reference(const ReferenceContext& c) {
  if (is_float(c.in_types[0].dtype)) return map2<[](double a, double b) { return a / b; }>(c);
  map2<[](double a, double b) { return b == 0 ? 0.0 : std::trunc(a / b); }>(c);
}

// With the sign of the dividend, as in C.
double truncated_mod(double a, double b) { return std::fmod(a, b); }
// With the divisor's, as in Python.
double floored_mod(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

void mod_reference(const ReferenceContext& c) {
  const bool zeros = !is_float(c.in_types[0].dtype), fmod = c.attrs.flag("fmod");
  if (zeros && fmod) {
    map2<[](double a, double b) { return b == 0 ? 0.0 : truncated_mod(a, b); }>(c);
  } else if (zeros) {
    map2<[](double a, double b) { return b == 0 ? 0.0 : floored_mod(a, b); }>(c);
  } else {
    fmod ? map2<truncated_mod>(c) : map2<floored_mod>(c);
  }
}

ValueId op(GradientContext& c, const char* name, ValueId a, ValueId b) {
  return c.g.add1(name, {a, b});
}

// The gradient of input i, given over the whole output.
ValueId of_input(GradientContext& c, size_t i, ValueId full) {
  const Shape shape = c.shape(c.x(i));
  return unbroadcast(c.g, full, shape);
}

using Gradients = std::vector<ValueId>;

Gradients add_gradient(GradientContext& c) {
  return {c.wanted[0] ? of_input(c, 0, c.dy[0]) : kNone,
          c.wanted[1] ? of_input(c, 1, c.dy[0]) : kNone};
}

Gradients sub_gradient(GradientContext& c) {
  return {c.wanted[0] ? of_input(c, 0, c.dy[0]) : kNone,
          c.wanted[1] ? of_input(c, 1, c.g.add1("Neg", {c.dy[0]})) : kNone};
}

Gradients mul_gradient(GradientContext& c) {
  return {c.wanted[0] ? of_input(c, 0, op(c, "Mul", c.dy[0], c.x(1))) : kNone,
          c.wanted[1] ? of_input(c, 1, op(c, "Mul", c.dy[0], c.x(0))) : kNone};
}

// da = dy / b, db = -dy y / b.
Gradients div_gradient(GradientContext& c) {
  const ValueId over_b = op(c, "Div", c.dy[0], c.x(1));
  ValueId db = kNone;
  if (c.wanted[1]) db = of_input(c, 1, c.g.add1("Neg", {op(c, "Mul", over_b, c.y())}));
  return {c.wanted[0] ? of_input(c, 0, over_b) : kNone, db};
}

// Between the jumps: da = dy; db = -dy n, where a = n b + y.
Gradients mod_gradient(GradientContext& c) {
  ValueId db = kNone;
  if (c.wanted[1]) {
    const ValueId times = op(c, "Div", op(c, "Sub", c.x(0), c.y()), c.x(1));
    db = of_input(c, 1, c.g.add1("Neg", {op(c, "Mul", c.dy[0], times)}));
  }
  return {c.wanted[0] ? of_input(c, 0, c.dy[0]) : kNone, db};
}

// `v` where `condition` holds, else 0.
ValueId where(GradientContext& c, ValueId condition, ValueId v) {
  return c.g.add1("Where", {condition, v, scalar_like(c.g, 0, v)});
}

// da = dy b a^(b-1), 0 where b is 0; db = dy a^b log a, 0 where a is not positive (log has no
// value).
Gradients pow_gradient(GradientContext& c) {
  const ValueId a = c.x(0), b = cast(c.g, c.x(1), c.g.type(a).dtype);
  const ValueId zero = scalar_like(c.g, 0, a);
  Gradients d = {kNone, kNone};
  if (c.wanted[0]) {
    const ValueId less = op(c, "Pow", a, op(c, "Sub", b, scalar_like(c.g, 1, b)));
    const ValueId slope = op(c, "Mul", b, less);
    const ValueId not_zero = c.g.add1("Not", {op(c, "Equal", b, zero)});
    d[0] = of_input(c, 0, op(c, "Mul", c.dy[0], where(c, not_zero, slope)));
  }
  if (c.wanted[1] && is_float(c.g.type(c.x(1)).dtype)) {
    const ValueId log = where(c, op(c, "Greater", a, zero), c.g.add1("Log", {a}));
    const ValueId full = op(c, "Mul", c.dy[0], op(c, "Mul", c.y(), log));
    d[1] = cast(c.g, of_input(c, 1, full), c.g.type(c.x(1)).dtype);
  }
  return d;
}

std::vector<Example> broadcast_examples() {
  std::vector<Example> e = {
      {{{7}, {7}}},
      {{{2, 3, 5, 4}, {2, 3, 5, 4}}},
      {{{2, 3, 4}, {3, 1}}},
      {{{5}, {2, 3, 5}}},
      {{{2, 1, 4}, {1, 3, 1}}},
      {{{2, 3, 5, 4}, {1, 3, 1, 1}}},
      {{Shape{}, Shape{}}},
      {{{2, 3}, Shape{}}},
      {{Shape{}, {2, 3}}},
      {{{0, 3}, {3}}},
      {{{2, 0}, {1, 1}}},
      {{{1, 2}, {0, 1}}},
      {{{3, 5, 4}, {1}}},
  };
  for (const DType t : {DType::kF64, DType::kF16, DType::kBF16, DType::kI8, DType::kU8, DType::kI16,
                        DType::kI32, DType::kU32, DType::kI64, DType::kU64}) {
    e.push_back({{{t, {3, 5}}, {t, {5}}}});
  }
  return e;
}

std::vector<Example> pow_examples() {
  using E = ExampleInput;
  const auto base = [](Shape s) { return E::range(std::move(s), 0.3, 2); };
  return {
      {{base({2, 3, 4}), {2, 3, 4}}},
      {{base({2, 3, 4}), Shape{}}},
      {{base({4}), {3, 1}}},
      {{base(Shape{}), {3}}},
      {{{2, 5}, E::scalar(2)}},  // negative bases, as x^2 has them
      {{{2, 5}, E::scalar(3)}},
      {{base({2, 5}), E::scalar(0.5)}},
      {{{2, 5}, E::scalar(0)}},
      {{{2, 5}, E::scalar(2, DType::kI64)}},
      {{base({3}), E::given(DType::kI32, {3}, {2, 0, -1})}},
      {{E::range({2, 3}, -5, 5, DType::kI32), E::given(DType::kF32, {3}, {2, 1, 3})}, {}, 0, false},
      {{E::range({2, 3}, -5, 5, DType::kI64), E::range({2, 3}, 0, 4, DType::kI64)}},
      {{E::range({6}, 0.3, 2, DType::kF16), E::range({6}, 0.3, 2, DType::kF16)}},
      {{E::range({6}, 0.3, 2, DType::kF64), E::range({6}, 0.3, 2, DType::kF64)}},
      {{{0, 3}, {3}}},
  };
}

std::vector<Example> mod_examples() {
  using E = ExampleInput;
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const Attrs fmod = {{"fmod", int64_t{1}}};
  return {
      {{E::given(DType::kI32, {6}, {-4, 7, 5, 4, -7, 8}),
        E::given(DType::kI32, {6}, {2, -3, 8, -2, 3, 5})}},
      {{E::given(DType::kI64, {6}, {-4, 7, 5, 4, -7, 8}),
        E::given(DType::kI64, {6}, {2, -3, 8, -2, 3, 5})},
       fmod},
      {{E::range({2, 3}, 0, 20, DType::kU8), E::range({3}, 1, 5, DType::kU8)}},
      {{E::given(DType::kI32, {3}, {-4, 0, 7}), E::given(DType::kI32, {3}, {0, 0, -1})}},
      {{E::given(DType::kI64, {2}, {5, 0}), E::given(DType::kI64, {2}, {0, 0})}, fmod},
      {{E::range({2, 3}, -9, 9, DType::kI16), E::range({3}, 1, 4, DType::kI16)}},
      {{E::range({2, 3}, -9, 9), E::range({3}, 1, 4)}, fmod},
      {{E::range({2, 3}, -9, 9), E::given(DType::kF32, {3}, {-2.3, 1.7, 4.1})}},
      {{E::given(DType::kF32, {4}, {3, -3, 3, -3}),
        E::given(DType::kF32, {4}, {kInfinite, kInfinite, -kInfinite, -kInfinite})},
       {},
       0,
       false},
      {{E::range({2, 3}, -9, 9, DType::kF64), E::range({3}, 1, 4, DType::kF64)}},
      {{E::range({2, 3}, -9, 9, DType::kF16), E::range({3}, 1, 4, DType::kF16)}},
  };
}

OpDef arithmetic(std::string_view name, Sign sign, bool commutative,
                 void (*reference)(const ReferenceContext&),
                 Gradients (*gradient)(GradientContext&)) {
  return {.name = name,
          .facts = mapping({.onnx = 1,
                            .rounding = Rounding::kRounds,
                            .sign = sign,
                            .commutative = commutative,
                            .step = true}),
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_arithmetic,
          .reference = reference,
          .gradient = gradient,
          .examples = broadcast_examples()};
}

}  // namespace

std::vector<OpDef> binary_ops() {
  return {
      arithmetic("Add", Sign::kAsInputs, true, map2<[](double a, double b) { return a + b; }>,
                 add_gradient),
      arithmetic("Sub", Sign::kAny, false, map2<[](double a, double b) { return a - b; }>,
                 sub_gradient),
      arithmetic("Mul", Sign::kAsInputs, true, map2<[](double a, double b) { return a * b; }>,
                 mul_gradient),
      arithmetic("Div", Sign::kAsInputs, false, div_reference, div_gradient),
      {.name = "Pow",
       .facts = mapping({.onnx = 1, .step = true}),
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_pow,
       .reference = map2<[](double a, double b) { return std::pow(a, b); }>,
       .gradient = pow_gradient,
       .examples = pow_examples()},
      {.name = "Mod",
       .facts = mapping({.onnx = 10}),
       .min_inputs = 2,
       .max_inputs = 2,
       .attrs = {{"fmod", AttrSpec::Kind::kInt, Attr(int64_t{0})}},
       .infer = infer_arithmetic,
       .reference = mod_reference,
       .gradient = mod_gradient,
       .by_reference = true,
       .examples = mod_examples()},
  };
}

}  // namespace ndtrain
