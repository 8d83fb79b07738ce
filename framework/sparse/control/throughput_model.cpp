#include "framework/sparse/control/throughput_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <ostream>

#include "framework/core/error.h"
#include "framework/numeric/nelder_mead.h"

namespace ndtrain {
namespace {

constexpr size_t kStarts = 8;  // at most, of points

void check_points(std::span<const ThroughputPoint> points) {
  if (points.empty()) throw Error("throughput: there is nothing to fit");
  const auto is_good = [](double v) { return std::isfinite(v) && v > 0; };
  for (const ThroughputPoint& p : points) {
    if (is_good(p.batch) && is_good(p.rows_per_s)) continue;
    throw Error("throughput: ", p.rows_per_s, " rows/s with a batch of ", p.batch);
  }
}

}  // namespace

double ThroughputModel::rows_per_s(double batch) const {
  return std::min(beta * batch / alpha, beta);
}

double ThroughputModel::backward_s(double batch) const { return std::max(batch, alpha) / beta; }

ThroughputModel fit_throughput(std::span<const ThroughputPoint> points,
                               const ThroughputModel& begin, const ThroughputBounds& bounds) {
  check_points(points);
  double largest = 0, fastest = 0;
  for (const ThroughputPoint& p : points) {
    largest = std::max(largest, p.batch);
    fastest = std::max(fastest, p.rows_per_s);
  }
  // No optimum is beyond these: above the largest batch only beta / alpha counts.
  const double most_alpha = 2 * std::max(bounds.alpha, largest);
  const Bounds within{
      .low = {bounds.alpha, bounds.beta},
      .high = {most_alpha, std::max(2 * bounds.beta, fastest * most_alpha / largest)}};
  const Objective squares = [&](std::span<const double> p) {
    const ThroughputModel model{.alpha = p[0], .beta = p[1]};
    double sum = 0;
    for (const ThroughputPoint& point : points) {
      const double off = (model.rows_per_s(point.batch) - point.rows_per_s) / fastest;
      sum += off * off;
    }
    return sum;
  };
  double least = std::numeric_limits<double>::infinity();
  ThroughputModel best;
  const auto search = [&](const ThroughputModel& from) {
    const Minimum m = nelder_mead(squares, std::array{from.alpha, from.beta}, within);
    if (m.value >= least) return;
    least = m.value;
    best = {.alpha = m.at[0], .beta = m.at[1]};
  };
  search(begin);
  const size_t starts = std::min(kStarts, points.size());
  for (size_t s = 0; s < starts; ++s) {
    const ThroughputPoint& p = points[s * points.size() / starts];
    search({.alpha = p.batch, .beta = p.rows_per_s});
  }
  return best;
}

double relative_error(const ThroughputModel& model, std::span<const ThroughputPoint> points) {
  check_points(points);
  double sum = 0;
  for (const ThroughputPoint& p : points) {
    const double off = model.rows_per_s(p.batch) / p.rows_per_s - 1;
    sum += off * off;
  }
  return std::sqrt(sum / static_cast<double>(points.size()));
}

}  // namespace ndtrain
