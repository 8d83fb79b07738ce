#include "ndp/jobs/temperature.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "framework/core/error.h"
#include "framework/train/head.h"

namespace ndtrain::ndp {
namespace {

constexpr double kLeast = 0.05, kMost = 20, kTolerance = 1e-6;

// The derivative of a row's cross-entropy by b, where its logits are multiplied by b: the logit
// that is expected less that of the label. It rises with b.
double slope(std::span<const float> logits, int64_t label, double b) {
  const double top = *std::ranges::max_element(logits);
  double sum = 0, expected = 0;
  for (const float x : logits) {
    const double p = std::exp(b * (x - top));
    sum += p;
    expected += p * x;
  }
  return expected / sum - logits[static_cast<size_t>(label)];
}

bool is_finite_row(std::span<const float> logits) {
  return std::ranges::all_of(logits, [](float x) { return std::isfinite(x); });
}

void divide(Model& m, const std::string& initialiser, double by) {
  const auto readers =
      std::accumulate(m.nodes.begin(), m.nodes.end(), int64_t{0}, [&](int64_t n, const auto& node) {
        return n + std::ranges::count(node.inputs, initialiser);
      });
  if (readers != 1) {
    throw Error("the classifier shares ", initialiser,
                " with another layer: it has no temperature");
  }
  Tensor& shared = m.initialisers.at(initialiser);  // with the model that this is a copy of
  std::vector<float> values;
  for (const float x : shared.as<float>()) values.push_back(static_cast<float>(x / by));
  shared = Tensor::of<float>(DType::kF32, shared.shape(), values);
}

}  // namespace

double fitted_temperature(std::span<const float> logits, std::span<const int64_t> labels) {
  if (labels.empty()) return 1;
  const size_t classes = logits.size() / labels.size();
  std::vector<size_t> rows;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (is_finite_row(logits.subspan(i * classes, classes))) rows.push_back(i);
  }
  if (rows.empty()) return 1;
  const auto slope_of_all = [&](double b) {
    double sum = 0;
    for (const size_t i : rows) sum += slope(logits.subspan(i * classes, classes), labels[i], b);
    return sum;
  };
  double low = 1 / kMost, high = 1 / kLeast;
  while (high > low * (1 + kTolerance)) {
    const double middle = std::sqrt(low * high);
    (slope_of_all(middle) < 0 ? low : high) = middle;
  }
  return 1 / std::sqrt(low * high);
}

double fitted_temperature(BatchPlans& plans, Dataset& data,
                          const std::vector<TensorType>& row_types) {
  std::vector<float> all;
  std::vector<int64_t> all_labels;
  for (int64_t begin = 0; begin < data.size(); begin += plans.max_batch()) {
    const int64_t n = std::min(plans.max_batch(), data.size() - begin);
    std::vector<int64_t> rows(static_cast<size_t>(n)), labels(static_cast<size_t>(n));
    std::iota(rows.begin(), rows.end(), begin);
    std::vector<Tensor> inputs;
    for (const TensorType& t : row_types) {
      inputs.emplace_back(TensorType{t.dtype, t.shape.with(0, n)});
    }
    data.fetch(rows, inputs, labels);
    const Tensor logits = plans.run(inputs).at(0);
    all.insert(all.end(), logits.as<float>().begin(), logits.as<float>().end());
    all_labels.insert(all_labels.end(), labels.begin(), labels.end());
  }
  return fitted_temperature(all, all_labels);
}

Model with_temperature(const Model& m, double temperature) {
  const ClassifierNode c = find_classifier(m);
  Model scaled = m;
  divide(scaled, c.weight, temperature);
  if (!c.bias.empty()) divide(scaled, c.bias, temperature);
  return scaled;
}

}  // namespace ndtrain::ndp
