#include "framework/train/optimizer.h"

#include <algorithm>
#include <cmath>

namespace ndtrain {
namespace {

bool is_sgd(const OptimizerConfig& c) { return c.kind == OptimizerConfig::Kind::kSgd; }

// Inputs: values, gradients, moments…, hyper-parameters. Outputs: values, moments….
Graph step_graph(const OptimizerConfig& c, int64_t n) {
  const TensorType flat{DType::kF32, {n}};
  Graph g;
  std::vector<ValueId> in = {g.add_input("values", flat), g.add_input("gradients", flat),
                             g.add_input("m", flat)};
  if (!is_sgd(c)) in.push_back(g.add_input("v", flat));
  in.push_back(g.add_input("hyper", {DType::kF32, {is_sgd(c) ? 3 : 7}}));
  const std::vector<ValueId> out =
      is_sgd(c) ? g.add("SgdStep", in, {{"nesterov", int64_t{c.nesterov}}}, 2)
                : g.add("AdamStep", in,
                        {{"decoupled", int64_t{c.kind == OptimizerConfig::Kind::kAdamW}}}, 3);
  for (ValueId v : out) g.mark_output(v);
  return g;
}

void copy_into(Tensor& to, const Tensor& from) {
  std::ranges::copy(from.as<float>(), to.mutable_as<float>().begin());
}

}  // namespace

OptimizerConfig::Kind optimizer_named(std::string_view name) {
  if (name == "sgd") return OptimizerConfig::Kind::kSgd;
  if (name == "adam") return OptimizerConfig::Kind::kAdam;
  if (name == "adamw") return OptimizerConfig::Kind::kAdamW;
  throw Error("unknown optimizer '", name, "'; there are sgd, adam and adamw");
}

Optimizer::Optimizer(const OptimizerConfig& config, Parameters& parameters, const Device& device)
    : config_(config), parameters_(parameters) {
  for (const ParameterBucket& b : parameters.buckets()) {
    const TensorType flat = b.values.type();
    auto step = std::make_unique<BucketStep>(step_graph(config, flat.shape.count()), device);
    for (int i = 0; i < (is_sgd(config) ? 1 : 2); ++i) step->moments.emplace_back(flat);
    buckets_.push_back(std::move(step));
  }
}

std::vector<float> Optimizer::hyper_parameters(double lr) const {
  auto f = [](double x) { return static_cast<float>(x); };
  if (is_sgd(config_)) return {f(lr), f(config_.momentum), f(config_.weight_decay)};
  const auto t = static_cast<double>(steps_);
  return {f(lr),
          f(config_.beta1),
          f(config_.beta2),
          f(config_.epsilon),
          f(config_.weight_decay),
          f(1 - std::pow(config_.beta1, t)),
          f(1 - std::pow(config_.beta2, t))};
}

void Optimizer::step(double lr) {
  ++steps_;
  const std::vector<float> hyper = hyper_parameters(lr);
  for (size_t i = 0; i < buckets_.size(); ++i) {
    ParameterBucket& b = parameters_.buckets()[i];
    std::vector<const void*> in = {b.values.data(), b.gradients.data()};
    std::vector<void*> out = {b.values.mutable_data()};
    for (Tensor& m : buckets_[i]->moments) {
      in.push_back(m.data());
      out.push_back(m.mutable_data());
    }
    in.push_back(hyper.data());
    buckets_[i]->executor.run(in, out);
  }
}

std::string Optimizer::moment_name(size_t bucket, size_t moment) const {
  return parameters_.buckets()[bucket].name + (moment == 0 ? ".m" : ".v");
}

std::map<std::string, Tensor> Optimizer::state() const {
  std::map<std::string, Tensor> s;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    for (size_t k = 0; k < buckets_[i]->moments.size(); ++k) {
      const Tensor& moment = buckets_[i]->moments[k];
      Tensor copy(moment.type());  // the moments go on changing
      copy_into(copy, moment);
      s.emplace(moment_name(i, k), std::move(copy));
    }
  }
  return s;
}

void Optimizer::restore(const std::map<std::string, Tensor>& state, int64_t steps) {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    for (size_t k = 0; k < buckets_[i]->moments.size(); ++k) {
      Tensor& moment = buckets_[i]->moments[k];
      const auto it = state.find(moment_name(i, k));
      if (it == state.end() || it->second.type() != moment.type()) {
        throw Error("checkpoint: optimizer state '", moment_name(i, k),
                    "' is missing or of another size; it was written for other parameters or "
                    "another optimizer");
      }
      copy_into(moment, it->second);
    }
  }
  steps_ = steps;
}

}  // namespace ndtrain
