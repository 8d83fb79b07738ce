// Functions of one number, element by element: y[i] = f(x[i]). One row each: name, f, the dtypes
// ONNX allows, the gradient, the range examples are drawn from.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

struct Row {
  std::string_view name;
  OpFacts facts;
  void (*infer)(InferContext&);
  std::vector<DType> dtypes;  // of the examples
  double low = 0, high = 0;
};

const std::vector<DType> kNumbers = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16,
                                     DType::kI32, DType::kI8,  DType::kI64};

void infer_float(InferContext& c) { same_float_type(c); }

void infer_number(InferContext& c) {
  require(c, 0, is_number, "a numeric dtype");
  same_type(c);
}

void infer_signed(InferContext& c) {
  require(c, 0, is_signed, "a signed dtype");
  same_type(c);
}

void infer_any(InferContext& c) {
  require(c, 0, any_dtype, "any dtype");
  same_type(c);
}

void infer_bool(InferContext& c) {
  require(c, 0, is_bool, "bool");
  same_type(c);
}

void infer_predicate(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  c.out = {{DType::kBool, c.shape(0)}};
}

template <auto F>
void map(const ReferenceContext& c) {
  for (size_t i = 0; i < c.in[0].size(); ++i) c.out[0][i] = F(c.in[0][i]);
}

template <auto D>
std::vector<ValueId> gradient(GradientContext& c) {
  return {D(c)};
}

// F: double -> double. D: the gradient, built from c.dy[0], c.x(0) and c.y().
template <auto F, auto D = nullptr>
OpDef row(Row r) {
  OpDef def{.name = r.name, .facts = r.facts, .infer = r.infer, .reference = map<F>};
  if constexpr (!std::is_null_pointer_v<decltype(D)>) def.gradient = gradient<D>;
  def.examples = unary_examples(r.dtypes, r.low, r.high);
  return def;
}

ValueId mul(GradientContext& c, ValueId a, ValueId b) { return c.g.add1("Mul", {a, b}); }
ValueId div(GradientContext& c, ValueId a, ValueId b) { return c.g.add1("Div", {a, b}); }
ValueId add(GradientContext& c, ValueId a, ValueId b) { return c.g.add1("Add", {a, b}); }
ValueId neg(GradientContext& c, ValueId a) { return c.g.add1("Neg", {a}); }
ValueId f(GradientContext& c, const char* op) { return c.g.add1(op, {c.x(0)}); }
ValueId squared(GradientContext& c, ValueId a) { return mul(c, a, a); }
ValueId scaled(GradientContext& c, double k, ValueId a) {
  return mul(c, a, scalar_like(c.g, k, a));
}
ValueId shifted(GradientContext& c, double k, ValueId a) {
  return add(c, a, scalar_like(c.g, k, a));
}

// dy / sqrt(sign * x^2 + shift).
ValueId over_root(GradientContext& c, double sign, double shift) {
  return div(c, c.dy[0],
             c.g.add1("Sqrt", {shifted(c, shift, scaled(c, sign, squared(c, c.x(0))))}));
}

// Facts of the rows.
OpFacts plain(int onnx) { return mapping({.onnx = onnx}); }
OpFacts exact(int onnx, Sign sign) {
  return mapping({.onnx = onnx, .rounding = Rounding::kExact, .sign = sign});
}
OpFacts rounds(int onnx, Sign sign) {
  return mapping({.onnx = onnx, .rounding = Rounding::kRounds, .sign = sign});
}
OpFacts bf16_since_22(OpFacts facts) {
  facts.onnx_later = kBf16Since22;
  return facts;
}
OpFacts as_step(OpFacts facts) {
  facts.step = true;
  return facts;
}

double sign_of(double x) { return x > 0 ? 1 : (x < 0 ? -1 : x); }  // NaN stays NaN

// Constant almost everywhere: no gradient comes back, which is the gradient.
ValueId zero(GradientContext&) { return kNone; }

OpDef flat(OpDef def) {
  for (Example& e : def.examples) e.check_gradient = false;
  return def;
}

std::vector<OpDef> rounding_and_sign() {
  return {
      row<[](double x) { return std::abs(x); },
          [](GradientContext& c) { return mul(c, c.dy[0], f(c, "Sign")); }>(
          {"Abs", as_step(exact(1, Sign::kNeverNegative)), infer_number, kNumbers}),
      row<[](double x) { return -x; }, [](GradientContext& c) { return neg(c, c.dy[0]); }>(
          {"Neg", as_step(exact(1, Sign::kAny)), infer_signed, kNumbers}),
      flat(row<sign_of, zero>({"Sign", exact(9, Sign::kAsInputs), infer_number, kNumbers})),
      flat(row<[](double x) { return std::floor(x); }, zero>(
          {"Floor", exact(1, Sign::kAsInputs), infer_float, kFloatDTypes, -3, 3})),
      flat(row<[](double x) { return std::ceil(x); }, zero>(
          {"Ceil", exact(1, Sign::kAsInputs), infer_float, kFloatDTypes, -3, 3})),
      // nearbyint rounds half to even in the default rounding mode, as ONNX asks.
      flat(row<[](double x) { return std::nearbyint(x); }, zero>(
          {"Round", bf16_since_22(exact(11, Sign::kAsInputs)), infer_float, kFloatDTypes, -3, 3})),
      row<[](double x) { return x; }, [](GradientContext& c) { return c.dy[0]; }>(
          {"Identity",
           moving({.onnx = 1, .rank = RankRule::kFirst, .view = true, .per_image = each_image}),
           infer_any,
           {DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kBool}}),
      // The same values lying otherwise; the layouts are the plan's.
      row<[](double x) { return x; }, [](GradientContext& c) { return c.dy[0]; }>(
          {"Reorder",
           moving({.rank = RankRule::kFirst, .per_image = each_image}),
           infer_any,
           {DType::kF32, DType::kBF16, DType::kU8}}),
      row<[](double x) { return x == 0 ? 1.0 : 0.0; }>(
          {"Not", plain(1), infer_bool, {DType::kBool}}),
      row<[](double x) { return std::isnan(x) ? 1.0 : 0.0; }>(
          {"IsNaN", mapping({.onnx = 9, .own_dtype = true}), infer_predicate, kFloatDTypes}),
  };
}

std::vector<OpDef> powers_and_exponentials() {
  return {
      row<[](double x) { return std::exp(x); },
          [](GradientContext& c) { return mul(c, c.dy[0], c.y()); }>(
          {"Exp", as_step(rounds(1, Sign::kNeverNegative)), infer_float, kFloatDTypes}),
      row<[](double x) { return std::log(x); },
          [](GradientContext& c) { return div(c, c.dy[0], c.x(0)); }>(
          {"Log", plain(1), infer_float, kFloatDTypes, 0.2, 4}),
      row<[](double x) { return std::sqrt(x); },
          [](GradientContext& c) { return div(c, scaled(c, 0.5, c.dy[0]), c.y()); }>(
          {"Sqrt", as_step(rounds(1, Sign::kNeverNegative)), infer_float, kFloatDTypes, 0.2, 4}),
      row<[](double x) { return 1 / x; },
          [](GradientContext& c) { return neg(c, mul(c, c.dy[0], squared(c, c.y()))); }>(
          {"Reciprocal", as_step(rounds(1, Sign::kAsInputs)), infer_float, kFloatDTypes, 0.3, 3}),
      // d erf / dx = 2 / sqrt(pi) exp(-x^2).
      row<[](double x) { return std::erf(x); },
          [](GradientContext& c) {
            const ValueId bell = c.g.add1("Exp", {neg(c, squared(c, c.x(0)))});
            return scaled(c, 2 / std::sqrt(std::acos(-1.0)), mul(c, c.dy[0], bell));
          }>({"Erf", as_step(rounds(9, Sign::kAsInputs)), infer_number, kFloatDTypes}),
      // log(1 + e^x), written so that e^x cannot overflow.
      row<[](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); },
          [](GradientContext& c) { return mul(c, c.dy[0], f(c, "Sigmoid")); }>(
          {"Softplus", bf16_since_22(rounds(1, Sign::kNeverNegative)), infer_float, kFloatDTypes,
           -30, 30}),
      row<[](double x) { return x / (1 + std::abs(x)); },
          [](GradientContext& c) {
            return div(c, c.dy[0], squared(c, shifted(c, 1, f(c, "Abs"))));
          }>({"Softsign", bf16_since_22(rounds(1, Sign::kAsInputs)), infer_float, kFloatDTypes}),
  };
}

std::vector<OpDef> trigonometry() {
  return {
      row<[](double x) { return std::sin(x); },
          [](GradientContext& c) { return mul(c, c.dy[0], f(c, "Cos")); }>(
          {"Sin", bf16_since_22(plain(7)), infer_float, kFloatDTypes, -4, 4}),
      row<[](double x) { return std::cos(x); },
          [](GradientContext& c) { return neg(c, mul(c, c.dy[0], f(c, "Sin"))); }>(
          {"Cos", bf16_since_22(plain(7)), infer_float, kFloatDTypes, -4, 4}),
      row<[](double x) { return std::tan(x); },
          [](GradientContext& c) { return mul(c, c.dy[0], shifted(c, 1, squared(c, c.y()))); }>(
          {"Tan", bf16_since_22(plain(7)), infer_float, kFloatDTypes}),
      row<[](double x) { return std::sinh(x); },
          [](GradientContext& c) { return mul(c, c.dy[0], f(c, "Cosh")); }>(
          {"Sinh", bf16_since_22(plain(9)), infer_float, kFloatDTypes}),
      row<[](double x) { return std::cosh(x); },
          [](GradientContext& c) { return mul(c, c.dy[0], f(c, "Sinh")); }>(
          {"Cosh", bf16_since_22(plain(9)), infer_float, kFloatDTypes}),
      row<[](double x) { return std::asin(x); },
          [](GradientContext& c) { return over_root(c, -1, 1); }>(
          {"Asin", bf16_since_22(plain(7)), infer_float, kFloatDTypes, -0.9, 0.9}),
      row<[](double x) { return std::acos(x); },
          [](GradientContext& c) { return neg(c, over_root(c, -1, 1)); }>(
          {"Acos", bf16_since_22(plain(7)), infer_float, kFloatDTypes, -0.9, 0.9}),
      row<[](double x) { return std::atan(x); },
          [](GradientContext& c) { return div(c, c.dy[0], shifted(c, 1, squared(c, c.x(0)))); }>(
          {"Atan", bf16_since_22(plain(7)), infer_float, kFloatDTypes}),
      row<[](double x) { return std::asinh(x); },
          [](GradientContext& c) { return over_root(c, 1, 1); }>(
          {"Asinh", bf16_since_22(plain(9)), infer_float, kFloatDTypes}),
      row<[](double x) { return std::acosh(x); },
          [](GradientContext& c) { return over_root(c, 1, -1); }>(
          {"Acosh", bf16_since_22(plain(9)), infer_float, kFloatDTypes, 1.5, 4}),
      row<[](double x) { return std::atanh(x); },
          [](GradientContext& c) {
            return div(c, c.dy[0], shifted(c, 1, neg(c, squared(c, c.x(0)))));
          }>({"Atanh", bf16_since_22(plain(9)), infer_float, kFloatDTypes, -0.9, 0.9}),
  };
}

}  // namespace

std::vector<OpDef> unary_ops() {
  std::vector<OpDef> ops = rounding_and_sign();
  for (OpDef& op : powers_and_exponentials()) ops.push_back(std::move(op));
  for (OpDef& op : trigonometry()) ops.push_back(std::move(op));
  return ops;
}

}  // namespace ndtrain
