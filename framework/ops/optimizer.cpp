// One optimizer step of one parameter, as PyTorch's torch.optim has it. The hyper-parameters are an
// input, so that a schedule changes them without a new plan.
//
// SgdStep of w, g, m and (lr, momentum, weight_decay, share):
//   g += weight_decay * w;  m' = momentum * m + share * g;
//   w' = w - lr * (nesterov ? g + momentum * m' : m').
//   `share` is 1 - dampening, and 1 at the first step.
// AdamStep (decoupled: AdamW) of w, g, m, v and (lr, beta1, beta2, eps, weight_decay, 1 - beta1^t,
// 1 - beta2^t):
//   g += weight_decay * w (decoupled: w *= 1 - lr * weight_decay);
//   m' = beta1 * m + (1 - beta1) * g;  v' = beta2 * v + (1 - beta2) * g^2;
//   w' = w - lr / (1 - beta1^t) * m' / (sqrt(v' / (1 - beta2^t)) + eps).
//   With a fifth state l (AMSGrad; Reddi et al., "On the Convergence of Adam and Beyond", 2018):
//   l' = max(l, v'), which stands for v' in w'.
// RmsPropStep (Tieleman and Hinton, 2012) of w, g, m, v and (lr, alpha, eps, weight_decay,
// momentum):
//   g += weight_decay * w;  v' = alpha * v + (1 - alpha) * g^2;
//   m' = momentum * m + g / (sqrt(v') + eps);  w' = w - lr * m'.
//   With a fifth state a (centred; Graves, "Generating Sequences With Recurrent Neural Networks",
//   2013): a' = alpha * a + (1 - alpha) * g, and v' - a'^2, not below 0, stands for v' in m'.
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

// Four states, or five.
void infer_states(InferContext& c, int64_t hyper) {
  const size_t states = c.in.size() - 1;
  if (static_cast<size_t>(c.n_outputs) != states - 1) {
    throw Error(states, " states, but ", c.n_outputs, " outputs: all but the gradient have a next");
  }
  infer(c, states, hyper);
}

void infer_sgd(InferContext& c) { infer(c, 3, 4); }
void infer_adam(InferContext& c) { infer_states(c, 7); }
void infer_rms_prop(InferContext& c) { infer_states(c, 5); }

void sgd_reference(const ReferenceContext& c) {
  const std::vector<double>& hyper = c.in[3];
  const double lr = hyper[0], momentum = hyper[1], decay = hyper[2], share = hyper[3];
  const bool nesterov = c.attrs.flag("nesterov");
  for (size_t i = 0; i < c.in[0].size(); ++i) {
    const double w = c.in[0][i], g = c.in[1][i] + decay * w;
    const double m = momentum * c.in[2][i] + share * g;
    c.out[0][i] = w - lr * (nesterov ? g + momentum * m : m);
    c.out[1][i] = m;
  }
}

void adam_reference(const ReferenceContext& c) {
  const bool amsgrad = c.in.size() == 6;
  const std::vector<double>& h = c.in.back();
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
    const double divisor = amsgrad ? std::max(c.in[4][i], v) : v;
    c.out[0][i] = w - lr / correction1 * m / (std::sqrt(divisor / correction2) + eps);
    c.out[1][i] = m;
    c.out[2][i] = v;
    if (amsgrad) c.out[3][i] = divisor;
  }
}

void rms_prop_reference(const ReferenceContext& c) {
  const bool centred = c.in.size() == 6;
  const std::vector<double>& h = c.in.back();
  const double lr = h[0], alpha = h[1], eps = h[2], decay = h[3], momentum = h[4];
  for (size_t i = 0; i < c.in[0].size(); ++i) {
    const double w = c.in[0][i], g = c.in[1][i] + decay * w;
    const double v = alpha * c.in[3][i] + (1 - alpha) * g * g;
    double variance = v;
    if (centred) {
      const double mean = alpha * c.in[4][i] + (1 - alpha) * g;
      variance = std::max(v - mean * mean, 0.0);
      c.out[3][i] = mean;
    }
    const double m = momentum * c.in[2][i] + g / (std::sqrt(variance) + eps);
    c.out[0][i] = w - lr * m;
    c.out[1][i] = m;
    c.out[2][i] = v;
  }
}

ExampleInput hyper(std::vector<double> values) {
  const Shape s{static_cast<int64_t>(values.size())};
  return ExampleInput::given(DType::kF32, s, std::move(values));
}

std::vector<Example> sgd_examples() {
  const ExampleInput plain = hyper({0.1, 0, 0, 1}), all = hyper({0.05, 0.9, 1e-2, 1});
  const ExampleInput damped = hyper({0.05, 0.9, 1e-2, 0.75});
  return {
      {{{7}, {7}, {7}, plain}},
      {{{3, 5, 3, 3}, {3, 5, 3, 3}, {3, 5, 3, 3}, all}},
      {{{67}, {67}, {67}, all}, {{"nesterov", 1}}},
      {{{67}, {67}, {67}, damped}},
      {{{DType::kF64, {5}}, {DType::kF64, {5}}, {DType::kF64, {5}}, all}},
  };
}

ExampleInput squares(Shape s, DType t = DType::kF32) {
  return ExampleInput::range(std::move(s), 0.01, 1, t);
}

std::vector<Example> adam_examples() {
  const ExampleInput first = hyper({1e-3, 0.9, 0.999, 1e-8, 0, 0.1, 0.001});
  const ExampleInput decay = hyper({1e-2, 0.9, 0.99, 1e-6, 0.1, 0.271, 0.0297});
  const ExampleInput f64(DType::kF64, {5}), v64 = squares({5}, DType::kF64);
  return {
      {{{7}, {7}, {7}, squares({7}), first}},
      {{{3, 5, 3, 3}, {3, 5, 3, 3}, {3, 5, 3, 3}, squares({3, 5, 3, 3}), decay}},
      {{{67}, {67}, {67}, squares({67}), decay}, {{"decoupled", 1}}},
      {{f64, f64, f64, v64, decay}},
      {{{67}, {67}, {67}, squares({67}), squares({67}), decay}, {}, 4},
      {{f64, f64, f64, v64, v64, decay}, {{"decoupled", 1}}, 4},
  };
}

std::vector<Example> rms_prop_examples() {
  const ExampleInput plain = hyper({1e-2, 0.99, 1e-8, 0, 0});
  const ExampleInput all = hyper({1e-2, 0.9, 1e-6, 0.1, 0.8});
  const ExampleInput f64(DType::kF64, {5}), v64 = ExampleInput::range({5}, 1.5, 2, DType::kF64);
  const ExampleInput large = ExampleInput::range({67}, 1.5, 2);  // above the squared mean
  return {
      {{{7}, {7}, {7}, squares({7}), plain}},
      {{{3, 5, 3, 3}, {3, 5, 3, 3}, {3, 5, 3, 3}, squares({3, 5, 3, 3}), all}},
      {{f64, f64, f64, v64, all}},
      {{{67}, {67}, {67}, large, {67}, all}, {}, 4},
      {{f64, f64, f64, v64, f64, all}, {}, 4},
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
       .max_inputs = 6,
       .min_outputs = 3,
       .max_outputs = 4,
       .attrs = {{"decoupled", Kind::kInt, Attr(int64_t{0})}},
       .infer = infer_adam,
       .reference = adam_reference,
       .examples = adam_examples()},
      {.name = "RmsPropStep",
       .min_inputs = 5,
       .max_inputs = 6,
       .min_outputs = 3,
       .max_outputs = 4,
       .infer = infer_rms_prop,
       .reference = rms_prop_reference,
       .examples = rms_prop_examples()},
  };
}

}  // namespace ndtrain
