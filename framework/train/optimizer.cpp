#include "framework/train/optimizer.h"

#include <algorithm>
#include <cmath>

namespace ndtrain {
namespace {

bool is_sgd(const OptimizerConfig& c) { return c.kind == OptimizerConfig::Kind::kSgd; }

std::vector<std::string> moment_names(const OptimizerConfig& c) {
  if (is_sgd(c)) return {"m"};
  return {"m", "v"};
}

TensorType hyper_type(const OptimizerConfig& c) { return {DType::kF32, {is_sgd(c) ? 3 : 7}}; }

// Inputs: values, gradients, moments…, hyper-parameters. Outputs: values, moments….
Graph step_graph(const OptimizerConfig& c, int64_t n) {
  const TensorType flat{DType::kF32, {n}};
  Graph g;
  std::vector<ValueId> in = {g.add_input("values", flat), g.add_input("gradients", flat)};
  for (const std::string& name : moment_names(c)) in.push_back(g.add_input(name, flat));
  in.push_back(g.add_input("hyper", hyper_type(c)));
  const std::vector<ValueId> out =
      is_sgd(c) ? g.add("SgdStep", in, {{"nesterov", int64_t{c.nesterov}}}, 2)
                : g.add("AdamStep", in,
                        {{"decoupled", int64_t{c.kind == OptimizerConfig::Kind::kAdamW}}}, 3);
  for (ValueId v : out) g.mark_output(v);
  return g;
}

}  // namespace

OptimizerConfig::Kind optimizer_named(std::string_view name) {
  if (name == "sgd") return OptimizerConfig::Kind::kSgd;
  if (name == "adam") return OptimizerConfig::Kind::kAdam;
  if (name == "adamw") return OptimizerConfig::Kind::kAdamW;
  throw Error("unknown optimizer '", name, "'; there are sgd, adam and adamw");
}

Optimizer::Optimizer(const OptimizerConfig& config, const ParameterSpace& parameters,
                     const Device& device)
    : config_(config),
      parameters_(parameters),
      device_(device),
      hyper_(device, hyper_type(config)) {
  const TensorType flat{DType::kF32, {parameters.size()}};
  for (size_t i = 0; i < moment_names(config).size(); ++i) moments_.emplace_back(device, flat);
  hyper_.send();
}

HyperParameters Optimizer::next(double lr) {
  ++steps_;
  const auto t = static_cast<double>(steps_);
  const OptimizerConfig& c = config_;
  const std::vector<double> values = is_sgd(c) ? std::vector{lr, c.momentum, c.weight_decay}
                                               : std::vector{lr,
                                                             c.beta1,
                                                             c.beta2,
                                                             c.epsilon,
                                                             c.weight_decay,
                                                             1 - std::pow(c.beta1, t),
                                                             1 - std::pow(c.beta2, t)};
  HyperParameters hyper{.step = steps_};
  for (const double v : values) hyper.values.push_back(static_cast<float>(v));
  return hyper;
}

void Optimizer::leave_out() { --steps_; }

Optimizer::RangeStep& Optimizer::step_of(ParameterRange range) {
  std::unique_ptr<RangeStep>& step = range_steps_[{range.begin, range.end}];
  if (!step) {
    step = std::make_unique<RangeStep>(step_graph(config_, range.size()), device_);
    step->executor.set_profiling(profiling_);
  }
  return *step;
}

float* Optimizer::moment(size_t i, int64_t at) const {
  return static_cast<float*>(moments_[i].data()) + at;
}

void Optimizer::apply(ParameterRange range, const HyperParameters& hyper, const float* gradients,
                      const float* from, float* to) {
  if (range.size() == 0) return;
  const auto sent = hyper_.host().mutable_as<float>();
  if (!std::ranges::equal(sent, hyper.values)) {
    std::ranges::copy(hyper.values, sent.begin());
    hyper_.send();
  }
  RangeStep& step = step_of(range);
  std::vector<const void*> in = {from, gradients};
  std::vector<void*> out = {to};
  for (size_t i = 0; i < moments_.size(); ++i) {
    in.push_back(moment(i, range.begin));
    out.push_back(moment(i, range.begin));
  }
  in.push_back(hyper_.data());
  step.executor.run(in, out);
  if (applied_ != hyper.step) applied_to_.clear();
  applied_ = hyper.step;
  applied_to_.push_back(&step);
}

void Optimizer::set_profiling(bool on) {
  profiling_ = on;
  for (const auto& [range, step] : range_steps_) step->executor.set_profiling(on);
}

std::vector<Executor::NodeTime> Optimizer::profile() const {
  std::vector<Executor::NodeTime> times;
  for (const RangeStep* step : applied_to_) {
    std::ranges::copy(step->executor.profile(), std::back_inserter(times));
  }
  return times;
}

std::map<std::string, Tensor> Optimizer::state() const {
  const std::vector<std::string> names = moment_names(config_);
  std::map<std::string, Tensor> s;
  for (size_t slot = 0; slot < parameters_.slots().size(); ++slot) {
    for (size_t i = 0; i < moments_.size(); ++i) {
      s.emplace(parameters_.slots()[slot].name + "." + names[i], parameters_.copy(slot, moment(i)));
    }
  }
  return s;
}

void Optimizer::restore(const std::map<std::string, Tensor>& state, int64_t steps) {
  const std::vector<std::string> names = moment_names(config_);
  for (size_t slot = 0; slot < parameters_.slots().size(); ++slot) {
    const ParameterSlot& s = parameters_.slots()[slot];
    for (size_t i = 0; i < moments_.size(); ++i) {
      const std::string name = s.name + "." + names[i];
      const auto it = state.find(name);
      if (it == state.end() || it->second.type() != TensorType{DType::kF32, s.shape}) {
        throw Error("checkpoint: optimizer state '", name,
                    "' is missing or of another size; it was written for other parameters or "
                    "another optimizer");
      }
      parameters_.set(slot, moment(i), it->second);
    }
  }
  steps_ = steps;
}

}  // namespace ndtrain
