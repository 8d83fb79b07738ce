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
}

HyperParameters hyper_parameters(const OptimizerConfig& c, double lr, int64_t step) {
  HyperParameters hyper{.step = step};
  for (const double v : numbers_of(c, lr, step)) hyper.values.push_back(static_cast<float>(v));
  return hyper;
}

std::vector<std::string> moment_names(const OptimizerConfig& c) { return op_of(c).moments; }

TensorType hyper_type(const OptimizerConfig& c) {
  return {DType::kF32, {static_cast<int64_t>(numbers_of(c, 0, 1).size())}};
}

Graph optimizer_graph(const OptimizerConfig& c, int64_t n) {
  const StepOp op = op_of(c);
  const TensorType flat{DType::kF32, {n}};
  Graph g;
  std::vector<ValueId> in = {g.add_input("values", flat), g.add_input("gradients", flat)};
  for (const std::string& name : op.moments) in.push_back(g.add_input(name, flat));
  in.push_back(g.add_input("hyper", hyper_type(c)));
  const int outputs = 1 + static_cast<int>(op.moments.size());
  for (ValueId v : g.add(op.name, in, op.attrs, outputs)) g.mark_output(v);
  return g;
}

}  // namespace ndtrain
