#include "cli/bench_sparse_optimizers.h"

#include <algorithm>
#include <chrono>

#include "cli/bench.h"
#include "framework/core/json.h"
#include "framework/runtime/backend.h"
#include "framework/sparse/optimizers/sparse_optimizer.h"
#include "framework/train/optimizer.h"

namespace ndtrain::cli {
namespace {

constexpr double kRate = 0.01;

double median_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return median(seconds);
}

double sparse_seconds(const OptimizerConfig& config, const ParameterSpace& parameters,
                      std::span<const Selection> gradients, const Device& device) {
  Optimizer dense(config, parameters, device);
  SparseOptimizer optimizer(dense, parameters, device);
  SparseOptimizer::Worker worker(optimizer);
  const std::span<float> values(parameters.values(), static_cast<size_t>(parameters.count()));
  // Memory that is touched for the first time is the system's time.
  for (const Selection& g : gradients) optimizer.apply(0, g, dense.next(kRate), values, worker);
  std::vector<double> seconds;
  for (const Selection& gradient : gradients) {
    const auto start = std::chrono::steady_clock::now();
    optimizer.apply(0, gradient, dense.next(kRate), values, worker);
    seconds.push_back(seconds_since(start));
  }
  return median_of(std::move(seconds));
}

// As without: zeros where there is no gradient, and a step of all elements.
double dense_seconds(const OptimizerConfig& config, const ParameterSpace& parameters,
                     std::span<const Selection> gradients, const Device& device) {
  Optimizer optimizer(config, parameters, device);
  std::vector<double> seconds;
  for (const Selection& gradient : gradients) {
    const auto start = std::chrono::steady_clock::now();
    std::fill_n(parameters.gradients(), parameters.size(), 0.0F);
    for (size_t i = 0; i < gradient.indices.size(); ++i) {
      parameters.gradients()[gradient.indices[i]] = gradient.values[i];
    }
    optimizer.apply({0, parameters.size()}, optimizer.next(kRate), parameters.gradients(),
                    parameters.values(), parameters.values());
    seconds.push_back(seconds_since(start));
  }
  return median_of(std::move(seconds));
}

}  // namespace

Json optimizer_rates(const std::string& name, int64_t n, std::span<const Selection> gradients) {
  const Device device(Backend::find("cpu"), {.deterministic = true});
  Graph g;
  const ValueId w = g.add_param("w", Tensor({DType::kF32, {n}}));
  const ParameterSpace parameters(g, std::vector{w}, device);
  const OptimizerConfig config{.kind = optimizer_named(name)};
  const auto elements = static_cast<double>(gradients[0].indices.size());
  const double sparse = sparse_seconds(config, parameters, gradients, device);
  const double dense = dense_seconds(config, parameters, gradients, device);
  return {{"optimizer", name},
          {"elements_per_s", elements / sparse},
          {"dense_elements_per_s", elements / dense},
          {"ratio_to_dense", dense / sparse}};
}

}  // namespace ndtrain::cli
