#include "framework/train/optimizer.h"

#include <algorithm>
#include <cmath>

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
std::vector<double> hyper_parameters(const OptimizerConfig& c, double lr, int64_t step) {
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

TensorType hyper_type(const OptimizerConfig& c) {
  return {DType::kF32, {static_cast<int64_t>(hyper_parameters(c, 0, 1).size())}};
}

// Inputs: values, gradients, moments…, hyper-parameters. Outputs: values, moments….
Graph step_graph(const OptimizerConfig& c, int64_t n) {
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

Graph scaling_graph(int64_t n) {
  Graph g;
  const ValueId gradients = g.add_input("gradients", {DType::kF32, {n}});
  const ValueId scale = g.add_input("scale", {DType::kF32, {}});
  g.mark_output(g.add1("Mul", {gradients, scale}));
  return g;
}

// What two ranges have in common; maybe nothing.
ParameterRange common(const ParameterRange& a, const ParameterRange& b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
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
  if (centered && kind != Kind::kRmsProp) throw Error("centered is of rmsprop");
  if (!(clip_norm >= 0) || !std::isfinite(clip_norm)) {
    throw Error("clip_norm ", clip_norm, ": a number above 0, or 0 for none");
  }
  if (!(alpha >= 0 && alpha < 1)) throw Error("alpha ", alpha, ": from 0 to below 1");
}

Optimizer::Optimizer(const OptimizerConfig& config, const ParameterSpace& parameters,
                     const Device& device)
    : config_(config),
      parameters_(parameters),
      device_(device),
      moment_names_(op_of(config).moments),
      kept_{{{0, parameters.size()}, 0}},
      hyper_(device, hyper_type(config)),
      scale_(device, {DType::kF32, {}}) {
  config.check();
  hyper_.send();
}

void Optimizer::keep_only(std::span<const ParameterRange> ranges, Complete complete) {
  complete_ = std::move(complete);
  kept_.clear();
  moments_.clear();
  int64_t at = 0;
  for (const ParameterRange& range : ranges) {
    if (range.size() == 0) continue;
    kept_.push_back({range, at});
    at += range.size();
  }
}

void Optimizer::make_moments() {
  const int64_t size = kept_.empty() ? 0 : kept_.back().at + kept_.back().range.size();
  const TensorType flat{DType::kF32, {std::max<int64_t>(size, 1)}};
  while (moments_.size() < moment_names_.size()) moments_.emplace_back(device_, flat);
}

HyperParameters Optimizer::next(double lr) {
  HyperParameters hyper{.step = ++steps_};
  for (const double v : hyper_parameters(config_, lr, steps_)) {
    hyper.values.push_back(static_cast<float>(v));
  }
  return hyper;
}

void Optimizer::leave_out() { --steps_; }

void Optimizer::reset() {
  steps_ = 0;
  for (DeviceTensor& m : moments_) m.clear();
}

int64_t Optimizer::place_of(ParameterRange range) const {
  for (const Kept& k : kept_) {
    if (common(k.range, range) == range) return k.at + range.begin - k.range.begin;
  }
  throw Error("optimizer: elements ", range.begin, " to ", range.end, " are not kept here");
}

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

void Optimizer::scale(int64_t n, float* gradients, float by) {
  std::unique_ptr<RangeStep>& scaling = scalings_[n];
  if (!scaling) scaling = std::make_unique<RangeStep>(scaling_graph(n), device_);
  scale_.host().mutable_as<float>()[0] = by;
  scale_.send();
  scaling->executor.run(std::vector<const void*>{gradients, scale_.data()},
                        std::vector<void*>{gradients});
}

void Optimizer::apply(ParameterRange range, const HyperParameters& hyper, float* gradients,
                      const float* from, float* to) {
  if (range.size() == 0) return;
  const int64_t place = place_of(range);
  make_moments();
  if (hyper.gradient_scale != 1) scale(range.size(), gradients, hyper.gradient_scale);
  const auto sent = hyper_.host().mutable_as<float>();
  if (!std::ranges::equal(sent, hyper.values)) {
    std::ranges::copy(hyper.values, sent.begin());
    hyper_.send();
  }
  RangeStep& step = step_of(range);
  std::vector<const void*> in = {from, gradients};
  std::vector<void*> out = {to};
  for (size_t i = 0; i < moments_.size(); ++i) {
    in.push_back(moment(i, place));
    out.push_back(moment(i, place));
  }
  in.push_back(hyper_.data());
  step.executor.run(in, out);
  if (applied_ != hyper.step) applied_to_.clear();
  applied_ = hyper.step;
  applied_to_.push_back(&step);
}

std::vector<float*> Optimizer::moments(ParameterRange range) {
  const int64_t place = place_of(range);
  make_moments();
  std::vector<float*> addresses;
  for (size_t i = 0; i < moments_.size(); ++i) addresses.push_back(moment(i, place));
  return addresses;
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
  std::map<std::string, Tensor> s;
  for (size_t i = 0; i < moment_names_.size(); ++i) {
    std::vector<float> whole(static_cast<size_t>(parameters_.size()));
    for (const Kept& k : kept_) {
      if (moments_.empty()) break;  // no step was taken
      device_.download(whole.data() + k.range.begin, moment(i, k.at),
                       static_cast<size_t>(k.range.size()) * sizeof(float));
    }
    if (complete_) complete_(whole);
    for (const ParameterSlot& slot : parameters_.slots()) {
      const auto begin = whole.begin() + slot.range.begin;
      s.emplace(slot.name + "." + moment_names_[i],
                Tensor::of<float>(DType::kF32, slot.shape, {begin, begin + slot.range.size()}));
    }
  }
  return s;
}

void Optimizer::restore(const std::map<std::string, Tensor>& state, int64_t steps) {
  if (steps == 0 && state.empty()) return reset();
  make_moments();
  for (const ParameterSlot& s : parameters_.slots()) {
    for (size_t i = 0; i < moments_.size(); ++i) {
      const std::string name = s.name + "." + moment_names_[i];
      const auto it = state.find(name);
      if (it == state.end() || it->second.type() != TensorType{DType::kF32, s.shape}) {
        throw Error("checkpoint: optimizer state '", name,
                    "' is missing or of another size; it was written for other parameters or "
                    "another optimizer");
      }
      for (const Kept& k : kept_) {
        const ParameterRange here = common(k.range, s.range);
        if (here.size() == 0) continue;
        device_.upload(moment(i, k.at + here.begin - k.range.begin),
                       it->second.as<float>().data() + (here.begin - s.range.begin),
                       static_cast<size_t>(here.size()) * sizeof(float));
      }
    }
  }
  steps_ = steps;
}

}  // namespace ndtrain
