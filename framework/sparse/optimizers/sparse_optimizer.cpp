#include "framework/sparse/optimizers/sparse_optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "framework/core/error.h"
#include "framework/train/state_entry.h"

namespace ndtrain {
namespace {

constexpr size_t kGathered = 2048;  // elements that take a step at once: they stay in L1 and L2
constexpr uint32_t kLine = 16;      // elements of a line of the cache

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

// Calls `run` for as many neighbouring elements as a line of the cache has, where that many follow
// one another, as threshold-v16 takes them, and `one` for others; each with a place in `indices`.
template <class Run, class One>
void for_runs(std::span<const uint32_t> indices, const Run& run, const One& one) {
  size_t i = 0;
  while (i < indices.size()) {
    const bool neighbours =
        i + kLine <= indices.size() && indices[i + kLine - 1] - indices[i] == kLine - 1;
    if (neighbours) {
      run(i);
      i += kLine;
    } else {
      one(i);
      ++i;
    }
  }
}

void gather(const float* from, std::span<const uint32_t> indices, float* to) {
  for_runs(
      indices, [&](size_t i) { std::memcpy(to + i, from + indices[i], kLine * sizeof(float)); },
      [&](size_t i) { to[i] = from[indices[i]]; });
}

void scatter(const float* from, std::span<const uint32_t> indices, float* to) {
  for_runs(
      indices, [&](size_t i) { std::memcpy(to + indices[i], from + i, kLine * sizeof(float)); },
      [&](size_t i) { to[indices[i]] = from[i]; });
}

// Into the cache, while something else is computed.
void fetch(const float* from, std::span<const uint32_t> indices) {
  uint32_t line = 0;
  for (const uint32_t i : indices) {
    if (i / kLine == line) continue;
    line = i / kLine;
    __builtin_prefetch(from + i, /*rw=*/1, /*locality=*/2);
  }
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
      moments_(moment_names(optimizer.config_).size(), std::vector<float>(kGathered)) {}

SparseOptimizer::SparseOptimizer(Optimizer& optimizer, const ParameterSpace& parameters,
                                 const Device& device, const SparseOptimizerOptions& options)
    : config_(optimizer.config()),
      options_(options),
      slots_(parameters.slots().begin(), parameters.slots().end()),
      plan_(optimizer_graph(config_, kGathered), device) {
  check(config_, options);
  if (!device.shares_host_memory()) {
    throw Error("sparse optimizer: backend ", device.backend().name(),
                " has memory of its own, and only the host's is stepped in");
  }
  for (const ParameterSlot& slot : slots_) {
    Kept kept{.moments = optimizer.moments(slot.range)};
    if (options_.lazy || config_.dampening != 0) {
      kept.touched.resize(static_cast<size_t>(slot.range.size()));
    }
    kept_.push_back(std::move(kept));
  }
}

void SparseOptimizer::apply(size_t slot, const Selection& gradient, const HyperParameters& hyper,
                            std::span<float> values, Worker& worker) {
  Kept& kept = kept_[slot];
  const float lr = hyper.values[0];
  if (options_.catch_up && kept.lr != 0 && kept.lr != lr) {
    throw Error("sparse optimizer: the rate went from ", kept.lr, " to ", lr,
                ", and catch-up is of a constant one");
  }
  kept.lr = lr;
  if (options_.lazy) make_up(kept, gradient, hyper, values);
  if (config_.dampening != 0) {
    split_first(gradient, kept.touched, worker.first_, worker.later_);
    const auto at_step = [&](int64_t n) { return hyper_parameters(config_, lr, n).values; };
    step(kept, worker.first_, at_step(1), hyper.gradient_scale, values, worker);
    step(kept, worker.later_, at_step(2), hyper.gradient_scale, values, worker);
  } else {
    step(kept, gradient, hyper.values, hyper.gradient_scale, values, worker);
  }
  if (kept.touched.empty()) return;
  for (const uint32_t i : gradient.indices) kept.touched[i] = static_cast<int32_t>(hyper.step);
}

// The op multiplies the momentum once; here it is for the steps before.
void SparseOptimizer::make_up(const Kept& kept, const Selection& gradient,
                              const HyperParameters& hyper, std::span<float> values) const {
  float* const momentum = kept.moments[0];
  for (const uint32_t i : gradient.indices) {
    const int64_t missed = hyper.step - kept.touched[i] - 1;
    if (kept.touched[i] == 0 || missed == 0) continue;
    const double fade = std::pow(config_.momentum, static_cast<double>(missed));
    if (options_.catch_up) {
      const double way = config_.momentum * (1 - fade) / (1 - config_.momentum);
      values[i] = static_cast<float>(values[i] - double{hyper.values[0]} * momentum[i] * way);
    }
    momentum[i] = static_cast<float>(momentum[i] * fade);
  }
}

void SparseOptimizer::step(const Kept& kept, const Selection& gradient,
                           std::span<const float> hyper, float scale, std::span<float> values,
                           Worker& worker) const {
  std::ranges::copy(hyper, worker.hyper_.mutable_as<float>().begin());
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
    const size_t behind = at + count;
    const auto next = std::span(gradient.indices)
                          .subspan(behind, std::min(kGathered, gradient.indices.size() - behind));
    gather(values.data(), indices, worker.values_.data());
    for (size_t m = 0; m < kept.moments.size(); ++m) {
      gather(kept.moments[m], indices, worker.moments_[m].data());
    }
    const auto of = std::span(gradient.values).subspan(at, count);
    std::ranges::transform(of, worker.gradients_.begin(), [scale](float g) { return g * scale; });
    fetch(values.data(), next);
    for (const float* moment : kept.moments) fetch(moment, next);
    worker.executor_.run(in, out);
    scatter(worker.values_.data(), indices, values.data());
    for (size_t m = 0; m < kept.moments.size(); ++m) {
      scatter(worker.moments_[m].data(), indices, kept.moments[m]);
    }
  }
}

std::map<std::string, Tensor> SparseOptimizer::state() const {
  std::map<std::string, Tensor> all;
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (kept_[s].touched.empty()) continue;
    all.emplace(slots_[s].name + ".touched",
                Tensor::of<int32_t>(DType::kI32, slots_[s].shape, kept_[s].touched));
    all.emplace(slots_[s].name + ".lr", Tensor::of<float>(DType::kF32, {1}, {kept_[s].lr}));
  }
  return all;
}

void SparseOptimizer::forget() {
  for (Kept& kept : kept_) {
    std::ranges::fill(kept.touched, 0);
    kept.lr = 0;
  }
}

void SparseOptimizer::restore(const std::map<std::string, Tensor>& state) {
  for (size_t s = 0; s < slots_.size(); ++s) {
    Kept& kept = kept_[s];
    if (kept.touched.empty()) continue;
    std::ranges::copy(
        state_entry(state, slots_[s].name + ".touched", {DType::kI32, slots_[s].shape})
            .as<int32_t>(),
        kept.touched.begin());
    kept.lr = state_entry(state, slots_[s].name + ".lr", {DType::kF32, {1}}).as<float>()[0];
  }
}

}  // namespace ndtrain
