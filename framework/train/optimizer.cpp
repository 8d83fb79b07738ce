#include "framework/train/optimizer.h"

#include <algorithm>

#include "framework/train/state_entry.h"

namespace ndtrain {
namespace {

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

Optimizer::Optimizer(const OptimizerConfig& config, const ParameterSpace& parameters,
                     const Device& device)
    : config_(config),
      parameters_(parameters),
      device_(device),
      moment_names_(moment_names(config)),
      kept_{{{0, parameters.size()}, 0}},
      rates_{{{0, parameters.size()}, 1}},
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

void Optimizer::scale_rates(const std::map<std::string, double>& rates) {
  rates_.clear();
  const std::span<const ParameterSlot> slots = parameters_.slots();
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto own = rates.find(slots[i].name);
    const double factor = own == rates.end() ? 1 : own->second;
    const int64_t end = i + 1 < slots.size() ? slots[i + 1].range.begin : parameters_.size();
    if (rates_.empty() || rates_.back().factor != factor) {
      rates_.push_back({{slots[i].range.begin, end}, factor});
    }
    rates_.back().range.end = end;
  }
}

void Optimizer::make_moments() {
  const int64_t size = kept_.empty() ? 0 : kept_.back().at + kept_.back().range.size();
  const TensorType flat{DType::kF32, {std::max<int64_t>(size, 1)}};
  while (moments_.size() < moment_names_.size()) moments_.emplace_back(device_, flat);
}

HyperParameters Optimizer::next(double lr) { return hyper_parameters(config_, lr, ++steps_); }

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
    step = std::make_unique<RangeStep>(optimizer_graph(config_, range.size()), device_);
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
  if (hyper.gradient_scale != 1) scale(range.size(), gradients, hyper.gradient_scale);
  for (const Rate& rate : rates_) {
    const ParameterRange part = common(rate.range, range);
    const int64_t at = part.begin - range.begin;
    if (part.size() == 0) continue;
    apply_at(rate.factor, part, hyper, gradients + at, from + at, to + at);
  }
}

void Optimizer::apply_at(double factor, ParameterRange range, const HyperParameters& hyper,
                         float* gradients, const float* from, float* to) {
  const int64_t place = place_of(range);
  make_moments();
  std::vector<float> values = hyper.values;
  values[0] = static_cast<float>(factor * values[0]);  // the learning rate
  const auto sent = hyper_.host().mutable_as<float>();
  if (!std::ranges::equal(sent, values)) {
    std::ranges::copy(values, sent.begin());
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

void Optimizer::add_moments(size_t i, std::map<std::string, Tensor>& to,
                            const std::string& suffix) const {
  std::vector<float> whole(static_cast<size_t>(parameters_.size()));
  for (const Kept& k : kept_) {
    if (moments_.empty()) break;  // no step was taken
    device_.download(whole.data() + k.range.begin, moment(i, k.at),
                     static_cast<size_t>(k.range.size()) * sizeof(float));
  }
  if (complete_) complete_(whole);
  for (const ParameterSlot& slot : parameters_.slots()) {
    const auto begin = whole.begin() + slot.range.begin;
    to.emplace(slot.name + suffix,
               Tensor::of<float>(DType::kF32, slot.shape, {begin, begin + slot.range.size()}));
  }
}

std::map<std::string, Tensor> Optimizer::state() const {
  std::map<std::string, Tensor> s;
  for (size_t i = 0; i < moment_names_.size(); ++i) add_moments(i, s, "." + moment_names_[i]);
  return s;
}

std::map<std::string, Tensor> Optimizer::averages() const {
  std::map<std::string, Tensor> all;
  if (config_.ema > 0 && steps_ > 0) add_moments(moment_names_.size() - 1, all, "");
  return all;
}

void Optimizer::restore(const std::map<std::string, Tensor>& state, int64_t steps) {
  if (steps == 0 && state.empty()) return reset();
  make_moments();
  for (const ParameterSlot& s : parameters_.slots()) {
    for (size_t i = 0; i < moments_.size(); ++i) {
      const std::string name = s.name + "." + moment_names_[i];
      const TensorType type{DType::kF32, s.shape};
      const Tensor& kept = state_entry(state, name, type);
      for (const Kept& k : kept_) {
        const ParameterRange here = common(k.range, s.range);
        if (here.size() == 0) continue;
        device_.upload(moment(i, k.at + here.begin - k.range.begin),
                       kept.as<float>().data() + (here.begin - s.range.begin),
                       static_cast<size_t>(here.size()) * sizeof(float));
      }
    }
  }
  steps_ = steps;
}

}  // namespace ndtrain
