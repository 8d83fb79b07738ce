#include "framework/train/optimizer.h"

#include <algorithm>
#include <cmath>

namespace ndtrain {
namespace {

bool is_sgd(const OptimizerConfig& c) { return c.kind == OptimizerConfig::Kind::kSgd; }

TensorType hyper_type(const OptimizerConfig& c) { return {DType::kF32, {is_sgd(c) ? 3 : 7}}; }

// Inputs: values, gradients, moments…, hyper-parameters. Outputs: values, moments….
Graph step_graph(const OptimizerConfig& c, int64_t n) {
  const TensorType flat{DType::kF32, {n}};
  Graph g;
  std::vector<ValueId> in = {g.add_input("values", flat), g.add_input("gradients", flat),
                             g.add_input("m", flat)};
  if (!is_sgd(c)) in.push_back(g.add_input("v", flat));
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

Optimizer::Optimizer(const OptimizerConfig& config, Parameters& parameters, const Device& device)
    : config_(config), parameters_(parameters), hyper_(device, hyper_type(config)) {
  for (const ParameterBucket& b : parameters.buckets()) {
    const TensorType flat = b.values.type();
    auto step = std::make_unique<BucketStep>(step_graph(config, flat.shape.count()), device);
    for (int i = 0; i < (is_sgd(config) ? 1 : 2); ++i) step->moments.emplace_back(device, flat);
    buckets_.push_back(std::move(step));
  }
}

void Optimizer::fill_hyper_parameters(double lr) {
  const auto t = static_cast<double>(steps_);
  const std::vector<double> values = is_sgd(config_)
                                         ? std::vector{lr, config_.momentum, config_.weight_decay}
                                         : std::vector{lr,
                                                       config_.beta1,
                                                       config_.beta2,
                                                       config_.epsilon,
                                                       config_.weight_decay,
                                                       1 - std::pow(config_.beta1, t),
                                                       1 - std::pow(config_.beta2, t)};
  std::ranges::transform(values, hyper_.host().mutable_as<float>().begin(),
                         [](double x) { return static_cast<float>(x); });
  hyper_.send();
}

void Optimizer::step(double lr) {
  ++steps_;
  fill_hyper_parameters(lr);
  for (size_t i = 0; i < buckets_.size(); ++i) {
    ParameterBucket& b = parameters_.buckets()[i];
    std::vector<const void*> in = {b.values.data(), b.gradients.data()};
    std::vector<void*> out = {b.values.data()};
    for (const DeviceTensor& m : buckets_[i]->moments) {
      in.push_back(m.data());
      out.push_back(m.data());
    }
    in.push_back(hyper_.data());
    buckets_[i]->executor.run(in, out);
  }
}

void Optimizer::set_profiling(bool on) {
  for (const auto& b : buckets_) b->executor.set_profiling(on);
}

std::vector<Executor::NodeTime> Optimizer::profile() const {
  std::vector<Executor::NodeTime> times;
  for (const auto& b : buckets_)
    std::ranges::copy(b->executor.profile(), std::back_inserter(times));
  return times;
}

std::string Optimizer::moment_name(size_t bucket, size_t moment) const {
  return parameters_.buckets()[bucket].name + (moment == 0 ? ".m" : ".v");
}

std::map<std::string, Tensor> Optimizer::state() const {
  std::map<std::string, Tensor> s;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    for (size_t k = 0; k < buckets_[i]->moments.size(); ++k) {
      s.emplace(moment_name(i, k), buckets_[i]->moments[k].copy());
    }
  }
  return s;
}

void Optimizer::restore(const std::map<std::string, Tensor>& state, int64_t steps) {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    for (size_t k = 0; k < buckets_[i]->moments.size(); ++k) {
      DeviceTensor& moment = buckets_[i]->moments[k];
      const auto it = state.find(moment_name(i, k));
      if (it == state.end() || it->second.type() != moment.type()) {
        throw Error("checkpoint: optimizer state '", moment_name(i, k),
                    "' is missing or of another size; it was written for other parameters or "
                    "another optimizer");
      }
      moment.set(it->second);
    }
  }
  steps_ = steps;
}

}  // namespace ndtrain
