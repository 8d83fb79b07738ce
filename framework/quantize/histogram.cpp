#include "framework/quantize/histogram.h"

#include <algorithm>
#include <cmath>

namespace ndtrain {

// Neighbours are joined until `to` has a bin.
void Histogram::grow(double to) {
  if (bins_.empty()) {
    bins_.assign(kBins, 0);
    top_ = std::ldexp(1.0, std::ilogb(to) + 1);
    return;
  }
  for (; to >= top_; top_ *= 2) {
    for (size_t i = 0; i < kBins / 2; ++i) bins_[i] = bins_[2 * i] + bins_[2 * i + 1];
    std::fill(bins_.begin() + kBins / 2, bins_.end(), 0);
  }
}

void Histogram::add(std::span<const float> values) {
  double most = 0;
  for (const float v : values) {
    if (std::isfinite(v)) most = std::max<double>(most, std::abs(v));
  }
  largest_ = std::max(largest_, most);
  if (bins_.empty() || most >= top_) grow(std::max(most, 1e-30));
  const double scale = 1 / width();
  for (const float v : values) {
    if (!std::isfinite(v)) continue;
    ++bins_[static_cast<size_t>(std::abs(v) * scale)];
    ++count_;
  }
}

double Histogram::magnitude(double share) const {
  const double wanted = share * static_cast<double>(count_);
  double below = 0;
  for (size_t i = 0; i < bins_.size(); ++i) {
    below += static_cast<double>(bins_[i]);
    if (below >= wanted && below > 0)
      return std::min(width() * static_cast<double>(i + 1), largest_);
  }
  return largest_;
}

double Histogram::best_clip(int steps) const {
  double best = largest_, least = INFINITY;
  // Zeros are exact whatever the step.
  constexpr int kTried = 128;
  for (int k = 1; k <= kTried; ++k) {
    const double clip = largest_ * k / kTried, step = clip / steps;
    double error = 0;
    for (size_t i = 0; i < bins_.size(); ++i) {
      if (bins_[i] == 0) continue;
      const double x = (static_cast<double>(i) + 0.5) * width();
      const double each = x > clip ? (x - clip) * (x - clip) : step * step / 12;
      if (i > 0) error += each * static_cast<double>(bins_[i]);
    }
    if (error < least) least = error, best = clip;
  }
  return best;
}

}  // namespace ndtrain
