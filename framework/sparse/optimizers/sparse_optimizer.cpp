#include "framework/sparse/optimizers/sparse_optimizer.h"

#include <algorithm>
#include <cmath>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

constexpr size_t kGathered = 2048;  // elements that take a step at once: they stay in L1 and L2

void check(const OptimizerConfig& c, const SparseOptimizerOptions& options) {
  c.check();
  const bool sgd = c.kind == OptimizerConfig::Kind::kSgd;
  if (options.lazy && !sgd) throw Error("lazy momentum is of sgd");
  if (!options.catch_up) return;
  if (!options.lazy) throw Error("catch-up is of lazy momentum, which is off");
  if (c.nesterov) throw Error("what Nesterov momentum missed has no closed form: no catch-up");
  if (!(c.momentum < 1)) {
    throw Error("momentum ", c.momentum, " never fades: catch-up is of momentum below 1");
  }
}

void gather(std::span<const float> from, std::span<const uint32_t> indices, float* to) {
  for (size_t i = 0; i < indices.size(); ++i) to[i] = from[indices[i]];
}

void scatter(const float* from, std::span<const uint32_t> indices, std::span<float> to) {
  for (size_t i = 0; i < indices.size(); ++i) to[indices[i]] = from[i];
}

// By whether the element had a gradient before.
void split_first(const Selection& all, std::span<const int32_t> touched, Selection& first,
                 Selection& later) {
  for (Selection* s : {&first, &later}) {
    s->indices.clear();
    s->values.clear();
  }
  for (size_t i = 0; i < all.indices.size(); ++i) {
    Selection& to = touched[all.indices[i]] == 0 ? first : later;
    to.indices.push_back(all.indices[i]);
    to.values.push_back(all.values[i]);
  }
}

}  // namespace

SparseOptimizer::Worker::Worker(const SparseOptimizer& optimizer)
    : executor_(optimizer.plan_),
      hyper_(hyper_type(optimizer.config_)),
      values_(kGathered),
      gradients_(kGathered),
      moments_(optimizer.moment_names_.size(), std::vector<float>(kGathered)) {}

SparseOptimizer::SparseOptimizer(const OptimizerConfig& config,
                                 const SparseOptimizerOptions& options,
                                 std::span<const ParameterSlot> slots, const Device& device)
    : config_(config),
      options_(options),
      slots_(slots.begin(), slots.end()),
      moment_names_(moment_names(config)),
      plan_(optimizer_graph(config, kGathered), device) {
  check(config, options);
  for (const ParameterSlot& slot : slots_) {
    const auto n = static_cast<size_t>(slot.shape.count());
    Kept kept;
    kept.moments.resize(moment_names_.size(), std::vector<float>(n));
    if (options_.lazy || config_.dampening != 0) kept.touched.resize(n);
    kept_.push_back(std::move(kept));
  }
}

void SparseOptimizer::apply(size_t slot, const Selection& gradient, double lr, float scale,
                            std::span<float> values, Worker& worker) {
  Kept& kept = kept_[slot];
  if (options_.catch_up && kept.steps > 0 && kept.lr != lr) {
    throw Error("sparse optimizer: the rate went from ", kept.lr, " to ", lr,
                ", and catch-up is of a constant one");
  }
  kept.lr = lr;
  ++kept.steps;
  if (options_.lazy) make_up(kept, gradient, lr, values);
  if (config_.dampening != 0) {
    split_first(gradient, kept.touched, worker.first_, worker.later_);
    step(kept, worker.first_, hyper_parameters(config_, lr, 1), scale, values, worker);
    step(kept, worker.later_, hyper_parameters(config_, lr, 2), scale, values, worker);
  } else {
    step(kept, gradient, hyper_parameters(config_, lr, kept.steps), scale, values, worker);
  }
  if (kept.touched.empty()) return;
  for (const uint32_t i : gradient.indices) kept.touched[i] = static_cast<int32_t>(kept.steps);
}

// The op multiplies the momentum once; here it is for the steps before.
void SparseOptimizer::make_up(Kept& kept, const Selection& gradient, double lr,
                              std::span<float> values) const {
  std::vector<float>& momentum = kept.moments[0];
  for (const uint32_t i : gradient.indices) {
    const int64_t missed = kept.steps - kept.touched[i] - 1;
    if (kept.touched[i] == 0 || missed == 0) continue;
    const double fade = std::pow(config_.momentum, static_cast<double>(missed));
    if (options_.catch_up) {
      const double way = config_.momentum * (1 - fade) / (1 - config_.momentum);
      values[i] = static_cast<float>(values[i] - lr * momentum[i] * way);
    }
    momentum[i] = static_cast<float>(momentum[i] * fade);
  }
}

void SparseOptimizer::step(Kept& kept, const Selection& gradient, const HyperParameters& hyper,
                           float scale, std::span<float> values, Worker& worker) const {
  std::ranges::copy(hyper.values, worker.hyper_.mutable_as<float>().begin());
  std::vector<const void*> in = {worker.values_.data(), worker.gradients_.data()};
  std::vector<void*> out = {worker.values_.data()};
  for (std::vector<float>& moment : worker.moments_) {
    in.push_back(moment.data());
    out.push_back(moment.data());
  }
  in.push_back(worker.hyper_.as<float>().data());
  for (size_t at = 0; at < gradient.indices.size(); at += kGathered) {
    // What lies behind the last element is of another block, and its results go nowhere.
    const size_t count = std::min(kGathered, gradient.indices.size() - at);
    const auto indices = std::span(gradient.indices).subspan(at, count);
    gather(values, indices, worker.values_.data());
    for (size_t m = 0; m < kept.moments.size(); ++m) {
      gather(kept.moments[m], indices, worker.moments_[m].data());
    }
    const auto of = std::span(gradient.values).subspan(at, count);
    std::ranges::transform(of, worker.gradients_.begin(), [scale](float g) { return g * scale; });
    worker.executor_.run(in, out);
    scatter(worker.values_.data(), indices, values);
    for (size_t m = 0; m < kept.moments.size(); ++m) {
      scatter(worker.moments_[m].data(), indices, kept.moments[m]);
    }
  }
}

std::map<std::string, Tensor> SparseOptimizer::state() const {
  std::map<std::string, Tensor> all;
  for (size_t s = 0; s < slots_.size(); ++s) {
    const std::string name = slots_[s].name + ".";
    for (size_t m = 0; m < moment_names_.size(); ++m) {
      all.emplace(name + moment_names_[m],
                  Tensor::of<float>(DType::kF32, slots_[s].shape, kept_[s].moments[m]));
    }
    all.emplace(name + "steps", Tensor::of<int64_t>(DType::kI64, {1}, {kept_[s].steps}));
    all.emplace(name + "lr", Tensor::of<double>(DType::kF64, {1}, {kept_[s].lr}));
    if (kept_[s].touched.empty()) continue;
    all.emplace(name + "touched",
                Tensor::of<int32_t>(DType::kI32, slots_[s].shape, kept_[s].touched));
  }
  return all;
}

void SparseOptimizer::restore(const std::map<std::string, Tensor>& state) {
  const auto find = [&state](const std::string& name, const TensorType& type) -> const Tensor& {
    const auto it = state.find(name);
    if (it == state.end() || it->second.type() != type) {
      throw Error("checkpoint: optimizer state '", name,
                  "' is missing or of another size; it was written for other parameters or "
                  "another optimizer");
    }
    return it->second;
  };
  for (size_t s = 0; s < slots_.size(); ++s) {
    const std::string name = slots_[s].name + ".";
    const Shape& shape = slots_[s].shape;
    Kept& kept = kept_[s];
    for (size_t m = 0; m < moment_names_.size(); ++m) {
      std::ranges::copy(find(name + moment_names_[m], {DType::kF32, shape}).as<float>(),
                        kept.moments[m].begin());
    }
    kept.steps = find(name + "steps", {DType::kI64, {1}}).as<int64_t>()[0];
    kept.lr = find(name + "lr", {DType::kF64, {1}}).as<double>()[0];
    if (kept.touched.empty()) continue;
    std::ranges::copy(find(name + "touched", {DType::kI32, shape}).as<int32_t>(),
                      kept.touched.begin());
  }
}

}  // namespace ndtrain
