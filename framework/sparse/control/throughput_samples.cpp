#include "framework/sparse/control/throughput_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "framework/core/error.h"

namespace ndtrain {

std::string ThroughputSamples::add(int64_t batch, double backward_ms) {
  if (batch < 1 || !std::isfinite(backward_ms) || backward_ms <= 0) {
    throw Error("throughput: ", batch, " rows in ", backward_ms, " ms");
  }
  if (++steps_ <= kWarmUp) return "";
  const double sample = 1000 * static_cast<double>(batch) / backward_ms;
  const auto [at, is_new] = means_.try_emplace(batch);
  Mean& mean = at->second;
  mean.seen = steps_;
  if (is_new) {
    mean.rows_per_s = sample;
    if (means_.size() > kBatches) forget_oldest();
  } else if (const double ratio = sample / mean.rows_per_s;
             ratio <= kOutlier && ratio >= 1 / kOutlier) {
    mean.rows_per_s = memory_ * mean.rows_per_s + (1 - memory_) * sample;
    mean.outliers = 0;
  } else if (++mean.outliers < kInARow) {
    return fmt::format("{:.4g} rows/s with a batch of {}, where the mean is {:.4g}", sample, batch,
                       mean.rows_per_s);
  } else {
    mean = {.rows_per_s = sample, .outliers = 0, .seen = steps_};
  }
  ++count_;
  return "";
}

void ThroughputSamples::forget_oldest() {
  means_.erase(std::ranges::min_element(
      means_, {}, [](const std::pair<const int64_t, Mean>& m) { return m.second.seen; }));
}

std::vector<ThroughputPoint> ThroughputSamples::means() const {
  std::vector<ThroughputPoint> points;
  for (const auto& [batch, mean] : means_) {
    points.push_back({.batch = static_cast<double>(batch), .rows_per_s = mean.rows_per_s});
  }
  return points;
}

void ThroughputSamples::fit() {
  if (!enough()) throw Error("throughput: ", count_, " samples, not ", kLeast);
  const std::vector<ThroughputPoint> points = means();
  model_ = fit_throughput(points, model_, bounds_);
}

}  // namespace ndtrain
