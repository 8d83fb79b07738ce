#include "framework/numeric/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "framework/core/error.h"
#include "framework/numeric/nelder_mead.h"

namespace ndtrain {
namespace {

using Hyper = GaussianProcess::Hyper;

constexpr double kTolerance = 1e-6;  // of logarithms, and of their likelihood

// (1 + z + z^2 / 3) exp(-z), z = sqrt(5) x distance in lengths.
double matern(std::span<const double> a, std::span<const double> b, const Hyper& hyper) {
  double square = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = (a[i] - b[i]) / hyper.lengths[i];
    square += d * d;
  }
  const double z = std::sqrt(5 * square);
  return hyper.variance * (1 + z + z * z / 3) * std::exp(-z);
}

// Natural logarithms of variance, noise, lengths.
Hyper from_logarithms(std::span<const double> log) {
  Hyper hyper{.variance = std::exp(log[0]), .noise = std::exp(log[1])};
  for (const double l : log.subspan(2)) hyper.lengths.push_back(std::exp(l));
  return hyper;
}

Bounds hyper_bounds(size_t coordinates) {
  Bounds bounds{.low = {std::log(1e-3), std::log(1e-8)}, .high = {std::log(1e3), std::log(1.0)}};
  bounds.low.insert(bounds.low.end(), coordinates, std::log(1e-2));
  bounds.high.insert(bounds.high.end(), coordinates, std::log(1e2));
  return bounds;
}

void check_hyper(const Hyper& hyper, size_t coordinates) {
  if (hyper.lengths.size() != coordinates) {
    throw Error("Gaussian process: ", hyper.lengths.size(), " lengths for ", coordinates,
                " coordinates");
  }
  const auto is_good = [](double v) { return std::isfinite(v) && v > 0; };
  if (!is_good(hyper.variance) || !is_good(hyper.noise) ||
      !std::ranges::all_of(hyper.lengths, is_good)) {
    throw Error("Gaussian process: variance ", hyper.variance, ", noise ", hyper.noise,
                " and all lengths are to be above 0");
  }
}

}  // namespace

void GaussianProcess::take(std::span<const std::vector<double>> x, std::span<const double> y) {
  if (x.empty() || x.size() != y.size() || x[0].empty()) {
    throw Error("Gaussian process: ", x.size(), " points and ", y.size(), " values");
  }
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i].size() != x[0].size()) {
      throw Error("Gaussian process: point ", i, " has ", x[i].size(), " coordinates, the first ",
                  x[0].size());
    }
    if (!std::isfinite(y[i])) throw Error("Gaussian process: value ", i, " is ", y[i]);
  }
  x_.assign(x.begin(), x.end());
  y_.assign(y.begin(), y.end());
  const auto n = static_cast<double>(y_.size());
  mean_ = 0;
  for (const double v : y_) mean_ += v / n;
  double square = 0;
  for (const double v : y_) square += (v - mean_) * (v - mean_) / n;
  deviation_ = square > 0 ? std::sqrt(square) : 1;
  for (double& v : y_) v = (v - mean_) / deviation_;
}

bool GaussianProcess::condition(const Hyper& hyper) {
  const size_t n = x_.size();
  std::vector<double> k(n * n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < i; ++j) k[i * n + j] = matern(x_[i], x_[j], hyper);
    k[i * n + i] = hyper.variance + hyper.noise;
  }
  covariance_ = Cholesky::of(std::move(k), n);
  if (!covariance_) return false;
  hyper_ = hyper;
  weights_ = covariance_->solve(y_);
  log_likelihood_ = -0.5 * (covariance_->log_determinant() +
                            static_cast<double>(n) * std::log(2 * std::numbers::pi));
  for (size_t i = 0; i < n; ++i) log_likelihood_ -= 0.5 * y_[i] * weights_[i];
  return true;
}

void GaussianProcess::observe(std::span<const std::vector<double>> x, std::span<const double> y,
                              Hyper hyper) {
  take(x, y);
  check_hyper(hyper, x[0].size());
  if (!condition(hyper)) throw Error("Gaussian process: the covariance is singular to rounding");
}

void GaussianProcess::fit(std::span<const std::vector<double>> x, std::span<const double> y,
                          Rng rng) {
  take(x, y);
  const Bounds bounds = hyper_bounds(x[0].size());
  const Objective unlikely = [&](std::span<const double> log) {
    return condition(from_logarithms(log)) ? -log_likelihood_
                                           : std::numeric_limits<double>::infinity();
  };
  Minimum best{.value = std::numeric_limits<double>::infinity()};
  std::vector<double> start(bounds.low.size(), 0.0);
  start[1] = std::log(1e-4);
  for (int restart = 0; restart < 3; ++restart) {
    Minimum found = nelder_mead(unlikely, start, bounds, {.tolerance = kTolerance});
    if (found.value < best.value) best = std::move(found);
    for (size_t i = 0; i < start.size(); ++i) {
      start[i] = bounds.low[i] + rng.next_uniform() * (bounds.high[i] - bounds.low[i]);
    }
  }
  if (best.at.empty() || !condition(from_logarithms(best.at))) {
    throw Error("Gaussian process: no hyper-parameters fit ", x_.size(), " points");
  }
}

GaussianProcess::Prediction GaussianProcess::predict(std::span<const double> x) const {
  if (!covariance_) throw Error("Gaussian process: there are no observations");
  if (x.size() != x_[0].size()) {
    throw Error("Gaussian process: a point of ", x.size(), " coordinates, not ", x_[0].size());
  }
  std::vector<double> k;
  for (const std::vector<double>& at : x_) k.push_back(matern(x, at, hyper_));
  double mean = 0, explained = 0;
  for (size_t i = 0; i < k.size(); ++i) mean += k[i] * weights_[i];
  for (const double v : covariance_->half_solve(k)) explained += v * v;
  return {.mean = mean_ + deviation_ * mean,
          .deviation = deviation_ * std::sqrt(std::max(0.0, hyper_.variance - explained))};
}

}  // namespace ndtrain
