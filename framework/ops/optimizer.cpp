// One optimizer step of one parameter. The hyper-parameters are an input, so that a schedule
// changes them without a new plan. SgdStep, as torch.optim.SGD:  g += weight_decay * w;  m' =
// momentum * m + g;
//   w' = w - lr * (nesterov ? g + momentum * m' : m').
// AdamStep, as torch.optim.Adam (decoupled: AdamW):  g += weight_decay * w (decoupled: w *= 1 - lr
// *
//   weight_decay);  m' = beta1 * m + (1 - beta1) * g;  v' = beta2 * v + (1 - beta2) * g^2;
//   w' = w - lr / (1 - beta1^t) * m' / (sqrt(v' / (1 - beta2^t)) + eps).
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

// Inputs: `states` tensors of the parameter's type (w, g and moments), then `hyper` numbers.
void infer(InferContext& c, size_t states, int64_t hyper) {
  require(c, 0, is_float, "a float dtype");
  for (size_t i = 1; i < states; ++i) {
    if (c.in[i] != c.in[0]) throw Error("inputs 0 and ", i, " differ: ", c.in[0], " and ", c.in[i]);
  }
  if (c.in[states] != TensorType{DType::kF32, {hyper}}) {
    throw Error("hyper-parameters are ", c.in[states], ", expected f32[", hyper, "]");
  }
  c.out.assign(static_cast<size_t>(c.n_outputs), c.in[0]);
}

void infer_sgd(InferContext& c) { infer(c, 3, 3); }
void infer_adam(InferContext& c) { infer(c, 4, 7); }

void sgd_reference(const ReferenceContext& c) {
  const std::vector<double>& hyper = c.in[3];
  const double lr = hyper[0], momentum = hyper[1], decay = hyper[2];
  const bool nesterov = c.attrs.flag("nesterov");
  for (size_t i = 0; i < c.in[0].size(); ++i) {
    const double w = c.in[0][i], g = c.in[1][i] + decay * w, m = momentum * c.in[2][i] + g;
    c.out[0][i] = w - lr * (nesterov ? g + momentum * m : m);
    c.out[1][i] = m;
  }
}

void adam_reference(const ReferenceContext& c) {
  const std::vector<double>& h = c.in[4];
  const double lr = h[0], beta1 = h[1], beta2 = h[2], eps = h[3], decay = h[4];
  const double correction1 = h[5], correction2 = h[6];
  const bool decoupled = c.attrs.flag("decoupled");
  for (size_t i = 0; i < c.in[0].size(); ++i) {
    double w = c.in[0][i], g = c.in[1][i];
    if (decoupled) {
      w *= 1 - lr * decay;
    } else {
      g += decay * w;
    }
    const double m = beta1 * c.in[2][i] + (1 - beta1) * g;
    const double v = beta2 * c.in[3][i] + (1 - beta2) * g * g;
    c.out[0][i] = w - lr / correction1 * m / (std::sqrt(v / correction2) + eps);
    c.out[1][i] = m;
    c.out[2][i] = v;
  }
}

ExampleInput hyper(std::vector<double> values) {
  const Shape s{static_cast<int64_t>(values.size())};
  return ExampleInput::given(DType::kF32, s, std::move(values));
}

std::vector<Example> sgd_examples() {
  const ExampleInput plain = hyper({0.1, 0, 0}), all = hyper({0.05, 0.9, 1e-2});
  return {
      {{{7}, {7}, {7}, plain}},
      {{{3, 5, 3, 3}, {3, 5, 3, 3}, {3, 5, 3, 3}, all}},
      {{{67}, {67}, {67}, all}, {{"nesterov", 1}}},
      {{{DType::kF64, {5}}, {DType::kF64, {5}}, {DType::kF64, {5}}, all}},
  };
}

std::vector<Example> adam_examples() {
  const ExampleInput first = hyper({1e-3, 0.9, 0.999, 1e-8, 0, 0.1, 0.001});
  const ExampleInput decay = hyper({1e-2, 0.9, 0.99, 1e-6, 0.1, 0.271, 0.0297});
  const auto v = [](Shape s, DType t = DType::kF32) {
    return ExampleInput::range(std::move(s), 0.01, 1, t);
  };
  return {
      {{{7}, {7}, {7}, v({7}), first}},
      {{{3, 5, 3, 3}, {3, 5, 3, 3}, {3, 5, 3, 3}, v({3, 5, 3, 3}), decay}},
      {{{67}, {67}, {67}, v({67}), decay}, {{"decoupled", 1}}},
      {{{DType::kF64, {5}}, {DType::kF64, {5}}, {DType::kF64, {5}}, v({5}, DType::kF64), decay}},
  };
}

}  // namespace

std::vector<OpDef> optimizer_ops() {
  using Kind = AttrSpec::Kind;
  return {
      {.name = "SgdStep",
       .min_inputs = 4,
       .max_inputs = 4,
       .min_outputs = 2,
       .max_outputs = 2,
       .attrs = {{"nesterov", Kind::kInt, Attr(int64_t{0})}},
       .infer = infer_sgd,
       .reference = sgd_reference,
       .examples = sgd_examples()},
      {.name = "AdamStep",
       .min_inputs = 5,
       .max_inputs = 5,
       .min_outputs = 3,
       .max_outputs = 3,
       .attrs = {{"decoupled", Kind::kInt, Attr(int64_t{0})}},
       .infer = infer_adam,
       .reference = adam_reference,
       .examples = adam_examples()},
  };
}

}  // namespace ndtrain
