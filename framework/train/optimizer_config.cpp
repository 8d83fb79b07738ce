#include "framework/train/optimizer_config.h"

#include <cmath>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

using Kind = OptimizerConfig::Kind;

bool is_adam(const OptimizerConfig& c) { return c.kind == Kind::kAdam || c.kind == Kind::kAdamW; }

// The op that takes a step, and what it keeps of a parameter besides its value.
struct StepOp {
  std::string name;
  Attrs attrs;
  std::vector<std::string> moments;
};

StepOp op_of(const OptimizerConfig& c) {
  StepOp op;
  if (c.kind == Kind::kSgd) return {"SgdStep", {{"nesterov", int64_t{c.nesterov}}}, {"m"}};
  if (c.kind == Kind::kRmsProp) {
    op = {"RmsPropStep", {}, {"m", "v"}};
    if (c.centered) op.moments.emplace_back("mean");
    return op;
  }
  op = {"AdamStep", {{"decoupled", int64_t{c.kind == Kind::kAdamW}}}, {"m", "v"}};
  if (c.amsgrad) op.moments.emplace_back("largest");
  return op;
}

constexpr const char* kAverage = "ema";

// How much of the weights after step `step`, from 1, enters their average.
double share_of_step(double ema, int64_t step) {
  return (1 - ema) / (1 - std::pow(ema, static_cast<double>(step)));
}

// a + share (w - a)
ValueId averaged(Graph& g, ValueId average, ValueId weights, ValueId share) {
  const ValueId apart = g.add1("Sub", {weights, average});
  return g.add1("Add", {average, g.add1("Mul", {apart, share})});
}

// As the op takes them; steps count from 1.
std::vector<double> numbers_of(const OptimizerConfig& c, double lr, int64_t step) {
  if (c.kind == Kind::kSgd) {
    const bool damped = step > 1 && c.momentum != 0;  // PyTorch's first velocity is the gradient
    return {lr, c.momentum, c.weight_decay, damped ? 1 - c.dampening : 1};
  }
  if (c.kind == Kind::kRmsProp) return {lr, c.alpha, c.epsilon, c.weight_decay, c.momentum};
  const auto t = static_cast<double>(step);
  return {lr,
          c.beta1,
          c.beta2,
          c.epsilon,
          c.weight_decay,
          1 - std::pow(c.beta1, t),
          1 - std::pow(c.beta2, t)};
}

}  // namespace

OptimizerConfig::Kind optimizer_named(std::string_view name) {
  if (name == "sgd") return Kind::kSgd;
  if (name == "adam") return Kind::kAdam;
  if (name == "adamw") return Kind::kAdamW;
  if (name == "rmsprop") return Kind::kRmsProp;
  throw Error("unknown optimizer '", name, "'; there are sgd, adam, adamw and rmsprop");
}

void OptimizerConfig::check() const {
  if (dampening != 0 && kind != Kind::kSgd) throw Error("dampening is of sgd");
  if (dampening != 0 && nesterov) throw Error("Nesterov momentum goes without dampening");
  if (!(dampening >= 0 && dampening <= 1)) throw Error("dampening ", dampening, ": from 0 to 1");
  if (amsgrad && !is_adam(*this)) throw Error("amsgrad is of adam and adamw");
  for (const double beta : {beta1, beta2}) {
    if (!(beta >= 0 && beta < 1)) throw Error("beta ", beta, ": from 0 to below 1");
  }
  const OptimizerConfig plain;
  if ((beta1 != plain.beta1 || beta2 != plain.beta2) && !is_adam(*this)) {
    throw Error("betas are of adam and adamw");
  }
  if (!(epsilon > 0) || !std::isfinite(epsilon)) throw Error("epsilon ", epsilon, ": above 0");
  if (epsilon != plain.epsilon && kind == Kind::kSgd) throw Error("sgd has no epsilon");
  if (centered && kind != Kind::kRmsProp) throw Error("centered is of rmsprop");
  if (!(clip_norm >= 0) || !std::isfinite(clip_norm)) {
    throw Error("clip_norm ", clip_norm, ": a number above 0, or 0 for none");
  }
  if (!(alpha >= 0 && alpha < 1)) throw Error("alpha ", alpha, ": from 0 to below 1");
  if (!(layer_decay > 0 && layer_decay <= 1)) {
    throw Error("layer decay ", layer_decay, ": above 0, to 1, where all layers learn alike");
  }
  for (const auto& [pattern, factor] : lr_of) {
    if (pattern.empty()) throw Error("a learning rate of parameters without a name");
    if (factor >= 0 && std::isfinite(factor)) continue;
    throw Error("learning rate of '", pattern, "' times ", factor,
                ": what it is multiplied by is a number from 0");
  }
  if (!(ema >= 0 && ema < 1)) {
    throw Error("ema ", ema, ": what stays of the average is from 0, for none, to below 1");
  }
}

HyperParameters hyper_parameters(const OptimizerConfig& c, double lr, int64_t step) {
  HyperParameters hyper{.step = step};
  for (const double v : numbers_of(c, lr, step)) hyper.values.push_back(static_cast<float>(v));
  if (c.ema > 0) hyper.values.push_back(static_cast<float>(share_of_step(c.ema, step)));
  return hyper;
}

std::vector<std::string> moment_names(const OptimizerConfig& c) {
  std::vector<std::string> names = op_of(c).moments;
  if (c.ema > 0) names.emplace_back(kAverage);
  return names;
}

std::string average_name(const std::string& parameter) { return parameter + "." + kAverage; }

TensorType hyper_type(const OptimizerConfig& c) {
  return {DType::kF32, {static_cast<int64_t>(hyper_parameters(c, 0, 1).values.size())}};
}

Graph optimizer_graph(const OptimizerConfig& c, int64_t n) {
  const StepOp op = op_of(c);
  const TensorType flat{DType::kF32, {n}};
  Graph g;
  std::vector<ValueId> in = {g.add_input("values", flat), g.add_input("gradients", flat)};
  for (const std::string& name : op.moments) in.push_back(g.add_input(name, flat));
  const int outputs = 1 + static_cast<int>(op.moments.size());
  if (c.ema == 0) {
    in.push_back(g.add_input("hyper", hyper_type(c)));
    for (ValueId v : g.add(op.name, in, op.attrs, outputs)) g.mark_output(v);
    return g;
  }
  const ValueId average = g.add_input(kAverage, flat), hyper = g.add_input("hyper", hyper_type(c));
  const Tensor sizes = Tensor::of<int64_t>(DType::kI64, {2}, {hyper_type(c).shape.count() - 1, 1});
  const std::vector<ValueId> of =
      g.add("Split", {hyper, g.add_constant("", sizes)}, {{"axis", int64_t{0}}}, 2);
  in.push_back(of[0]);
  const std::vector<ValueId> out = g.add(op.name, in, op.attrs, outputs);
  for (ValueId v : out) g.mark_output(v);
  g.mark_output(averaged(g, average, out[0], of[1]));
  return g;
}

}  // namespace ndtrain
