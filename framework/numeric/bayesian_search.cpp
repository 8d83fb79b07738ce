#include "framework/numeric/bayesian_search.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

double deviation_of(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  double mean = 0, square = 0;
  for (const double v : values) mean += v / n;
  for (const double v : values) square += (v - mean) * (v - mean) / n;
  return std::sqrt(square);
}

}  // namespace

double expected_improvement(const GaussianProcess::Prediction& p, double best, double xi) {
  const double improvement = best - xi - p.mean;
  if (!(p.deviation > 0)) return std::max(improvement, 0.0);
  const double z = improvement / p.deviation;
  const double below = 0.5 * std::erfc(-z / std::numbers::sqrt2);
  const double density = std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi);
  return improvement * below + p.deviation * density;
}

BayesianSearch::BayesianSearch(Bounds bounds, Rng rng, Options options)
    : bounds_(std::move(bounds)), rng_(rng), options_(options) {
  validate(bounds_);
  if (options.candidates < 1) throw Error("BayesianSearch: ", options.candidates, " candidates");
}

std::vector<double> BayesianSearch::scaled(std::span<const double> x) const {
  std::vector<double> unit;
  for (size_t i = 0; i < x.size(); ++i) {
    unit.push_back((x[i] - bounds_.low[i]) / (bounds_.high[i] - bounds_.low[i]));
  }
  return unit;
}

std::vector<double> BayesianSearch::ask() {
  const size_t n = bounds_.low.size();
  std::vector<double> best(n, 0.5);  // of 0 … 1
  if (!y_.empty()) {
    std::vector<std::vector<double>> known;
    for (const std::vector<double>& x : x_) known.push_back(scaled(x));
    GaussianProcess process;
    process.fit(known, y_, Rng(rng_.next_bits()));
    const double least = std::ranges::min(y_), xi = options_.xi * deviation_of(y_);
    double most = -1;
    for (int c = 0; c < options_.candidates; ++c) {
      std::vector<double> candidate(n);
      for (double& v : candidate) v = rng_.next_uniform();
      const double gain = expected_improvement(process.predict(candidate), least, xi);
      if (gain <= most) continue;
      most = gain;
      best = std::move(candidate);
    }
  }
  for (size_t i = 0; i < n; ++i) {
    best[i] = bounds_.low[i] + best[i] * (bounds_.high[i] - bounds_.low[i]);
  }
  return best;
}

void BayesianSearch::tell(std::span<const double> x, double y) {
  if (x.size() != bounds_.low.size()) {
    throw Error("BayesianSearch: told of ", x.size(), " coordinates, not ", bounds_.low.size());
  }
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] >= bounds_.low[i] && x[i] <= bounds_.high[i]) continue;
    throw Error("BayesianSearch: coordinate ", i, " is ", x[i], ", not from ", bounds_.low[i],
                " to ", bounds_.high[i]);
  }
  if (!std::isfinite(y)) throw Error("BayesianSearch: told the value ", y);
  x_.emplace_back(x.begin(), x.end());
  y_.push_back(y);
}

Minimum BayesianSearch::best() const {
  if (y_.empty()) throw Error("BayesianSearch: was told nothing");
  const auto at = std::ranges::min_element(y_) - y_.begin();
  return {.at = x_[static_cast<size_t>(at)],
          .value = y_[static_cast<size_t>(at)],
          .evaluations = static_cast<int>(y_.size())};
}

}  // namespace ndtrain
