// Activations: y = f(x) with up to two numbers from the attributes, and for each an op <Name>Grad
// of its own, dx = dy * f'(…), as training runs through it at every layer. Some gradients are
// written in y instead of x, so that x need not be kept.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

struct Constants {
  double a = 0, b = 0;  // the op's float attributes, in order
  bool tanh = false;    // Gelu's approximation
};

Constants constants(const Attrs& attrs) {
  Constants c;
  if (attrs.has("alpha")) c.a = attrs.f("alpha");
  if (attrs.has("beta")) c.b = attrs.f("beta");
  if (attrs.has("gamma")) c.b = attrs.f("gamma");
  if (attrs.has("approximate")) c.tanh = attrs.s("approximate") == "tanh";
  return c;
}

template <auto F>
void reference(const ReferenceContext& c) {
  const Constants k = constants(c.attrs);
  for (size_t i = 0; i < c.in[0].size(); ++i) c.out[0][i] = F(c.in[0][i], k);
}

template <auto D>
void grad_reference(const ReferenceContext& c) {
  const Constants k = constants(c.attrs);
  for (size_t i = 0; i < c.in[0].size(); ++i) c.out[0][i] = c.in[0][i] * D(c.in[1][i], k);
}

template <bool from_y>
std::vector<ValueId> gradient(GradientContext& c) {
  return {c.g.add1(c.node.op + "Grad", {c.dy[0], from_y ? c.y() : c.x(0)}, c.node.attrs)};
}

void infer(InferContext& c) {
  if (c.attrs.has("approximate")) {
    const std::string& how = c.attrs.s("approximate");
    if (how != "none" && how != "tanh") {
      throw Error("approximate is '", how, "', must be 'none' or 'tanh'");
    }
  }
  same_float_type(c);
}

struct Row {
  std::string_view name, grad_name;
  OpFacts facts;
  std::vector<AttrSpec> attrs;
  std::vector<Attrs> example_attrs;  // besides the defaults
  double low = -3, high = 3;
};

enum From { kFromX, kFromY };

// F: f of an element. D: its derivative as a function of x, or of y where the row says so.
template <From from, auto F, auto D>
void add_rows(std::vector<OpDef>& ops, const Row& r) {
  OpDef def{.name = r.name, .facts = mapping(r.facts), .attrs = r.attrs, .infer = infer};
  def.facts.rounding = Rounding::kRounds;
  def.reference = reference<F>;
  def.gradient = gradient<from == kFromY>;
  def.examples = unary_examples(kFloatDTypes, r.low, r.high);
  OpDef grad{.name = r.grad_name, .facts = mapping({})};
  grad.min_inputs = grad.max_inputs = 2;
  grad.attrs = r.attrs;
  grad.infer = infer;
  grad.reference = grad_reference<D>;
  for (const DType t : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    grad.examples.push_back({{{t, {3, 11}}, ExampleInput::range({3, 11}, r.low, r.high, t)}});
  }
  for (const Attrs& a : r.example_attrs) {
    const ExampleInput x = ExampleInput::range({2, 19}, r.low, r.high);
    def.examples.push_back({{x}, a});
    grad.examples.push_back({{{2, 19}, x}, a});
  }
  ops.push_back(std::move(def));
  ops.push_back(std::move(grad));
}

AttrSpec number(std::string_view name, double fallback) {
  return {name, AttrSpec::Kind::kFloat, Attr(fallback)};
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void sigmoid_like(std::vector<OpDef>& ops) {
  using C = const Constants&;
  add_rows<kFromY, [](double x, C) { return sigmoid(x); }, [](double y, C) { return y * (1 - y); }>(
      ops,
      {"Sigmoid", "SigmoidGrad", {.onnx = 1, .sign = Sign::kNeverNegative, .step = true}, {}, {}});
  add_rows<kFromY, [](double x, C) { return std::tanh(x); }, [](double y, C) { return 1 - y * y; }>(
      ops, {"Tanh", "TanhGrad", {.onnx = 1, .sign = Sign::kAsInputs, .step = true}, {}, {}});
  // y = clip(a x + b, 0, 1).
  add_rows<kFromY, [](double x, C c) { return std::min(std::max(c.a * x + c.b, 0.0), 1.0); },
           [](double y, C c) { return (y > 0 && y < 1) ? c.a : 0.0; }>(
      ops, {"HardSigmoid",
            "HardSigmoidGrad",
            {.onnx = 1, .onnx_later = kBf16Since22, .sign = Sign::kNeverNegative, .step = true},
            {number("alpha", 0.2), number("beta", 0.5)},
            {{{"alpha", 0.5}, {"beta", 0.6}}}});
  // y = x clip(x / 6 + 1/2, 0, 1) (Howard et al., MobileNetV3, 2019).
  add_rows<kFromX, [](double x, C) { return x * std::min(std::max(x / 6 + 0.5, 0.0), 1.0); },
           [](double x, C) { return x <= -3 ? 0.0 : (x >= 3 ? 1.0 : x / 3 + 0.5); }>(
      ops, {"HardSwish",
            "HardSwishGrad",
            {.onnx = 14, .onnx_later = kBf16Since22, .sign = Sign::kAsInputs, .step = true},
            {},
            {},
            -5,
            5});
}

void relu_like(std::vector<OpDef>& ops) {
  using C = const Constants&;
  add_rows<kFromX, [](double x, C c) { return x < 0 ? c.a * x : x; },
           [](double x, C c) { return x < 0 ? c.a : 1.0; }>(
      ops, {"LeakyRelu",
            "LeakyReluGrad",
            {.onnx = 1, .sign = Sign::kAsInputs, .step = true},
            {number("alpha", 0.01)},
            {{{"alpha", 0.2}}}});
  add_rows<kFromX, [](double x, C c) { return x < 0 ? c.a * std::expm1(x) : x; },
           [](double x, C c) { return x < 0 ? c.a * std::exp(x) : 1.0; }>(
      ops, {"Elu",
            "EluGrad",
            {.onnx = 1, .onnx_later = kBf16Since22, .sign = Sign::kAsInputs, .step = true},
            {number("alpha", 1)},
            {{{"alpha", 0.5}}}});
  // Continuously differentiable for every a (Barron, 2017).
  add_rows<kFromX, [](double x, C c) { return x < 0 ? c.a * std::expm1(x / c.a) : x; },
           [](double x, C c) { return x < 0 ? std::exp(x / c.a) : 1.0; }>(
      ops, {"Celu",
            "CeluGrad",
            {.onnx = 12,
             .onnx_later = {{28, DType::kF16}, {28, DType::kBF16}, {28, DType::kF64}},
             .sign = Sign::kAsInputs},
            {number("alpha", 1)},
            {{{"alpha", 2.0}}}});
  // Klambauer et al., 2017; the constants are those ONNX writes down.
  add_rows<kFromX, [](double x, C c) { return c.b * (x <= 0 ? c.a * std::expm1(x) : x); },
           [](double x, C c) { return c.b * (x <= 0 ? c.a * std::exp(x) : 1.0); }>(
      ops,
      {"Selu",
       "SeluGrad",
       {.onnx = 1, .onnx_later = kBf16Since22, .sign = Sign::kAsInputs},
       {number("alpha", 1.67326319217681884765625), number("gamma", 1.05070102214813232421875)},
       {{{"alpha", 2.0}, {"gamma", 3.0}}}});
  add_rows<kFromX, [](double x, C c) { return (x > c.a) ? x : 0.0; },
           [](double x, C c) { return (x > c.a) ? 1.0 : 0.0; }>(
      ops, {"ThresholdedRelu",
            "ThresholdedReluGrad",
            {.onnx = 10, .onnx_later = kBf16Since22, .sign = Sign::kAsInputs},
            {number("alpha", 1)},
            {{{"alpha", 2.0}}}});
}

// Hendrycks and Gimpel, 2016: x Phi(x), or with the tanh approximation of Phi.
constexpr double kCubic = 0.044715;
double gelu_inner(double x) { return std::sqrt(2 / std::acos(-1.0)) * (x + kCubic * x * x * x); }

double gelu(double x, const Constants& c) {
  if (c.tanh) return 0.5 * x * (1 + std::tanh(gelu_inner(x)));
  return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}

double gelu_slope(double x, const Constants& c) {
  const double pi = std::acos(-1.0);
  if (!c.tanh) {
    return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) + x * std::exp(-x * x / 2) / std::sqrt(2 * pi);
  }
  const double t = std::tanh(gelu_inner(x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / pi) * (1 + 3 * kCubic * x * x);
}

// Misra, 2019: x tanh(log(1 + e^x)).
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double mish(double x, const Constants&) { return x * std::tanh(softplus(x)); }
double mish_slope(double x, const Constants&) {
  const double t = std::tanh(softplus(x));
  return t + x * sigmoid(x) * (1 - t * t);
}

void gelu_like(std::vector<OpDef>& ops) {
  const AttrSpec approximate{"approximate", AttrSpec::Kind::kString, Attr(std::string("none"))};
  add_rows<kFromX, gelu, gelu_slope>(ops, {"Gelu",
                                           "GeluGrad",
                                           {.onnx = 20, .sign = Sign::kAsInputs, .step = true},
                                           {approximate},
                                           {{{"approximate", std::string("tanh")}}}});
  add_rows<kFromX, mish, mish_slope>(
      ops, {"Mish",
            "MishGrad",
            {.onnx = 18, .onnx_later = kBf16Since22, .sign = Sign::kAsInputs},
            {},
            {}});
}

}  // namespace

std::vector<OpDef> activation_ops() {
  std::vector<OpDef> ops;
  sigmoid_like(ops);
  relu_like(ops);
  gelu_like(ops);
  return ops;
}

}  // namespace ndtrain
