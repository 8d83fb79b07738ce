#include "framework/sparse/control/loss_penalty.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ndtrain {

LossPenalty::LossPenalty(ConvergenceProfile profile, uint64_t seed) : profile_(std::move(profile)) {
  validate(profile_);
  std::vector<std::vector<double>> x;
  std::vector<double> y;
  for (const ConvergenceProfile::Point& p : profile_.points) {
    x.push_back(coordinates(p.batch, p.second));
    y.push_back(p.penalty);
  }
  low_ = high_ = x[0];
  for (const std::vector<double>& at : x) {
    for (size_t i = 0; i < at.size(); ++i) {
      low_[i] = std::min(low_[i], at[i]);
      high_[i] = std::max(high_[i], at[i]);
    }
  }
  process_.fit(x, y, Rng(seed, "loss penalty"));
}

std::vector<double> LossPenalty::coordinates(double batch_part, double second) const {
  if (profile_.over == ConvergenceProfile::Over::kBandwidth) return {batch_part, second};
  // To about 1: of a drop of .999.
  return {batch_part, -std::log10(1 - second) / 3};
}

double LossPenalty::at(double batch, double second) const {
  std::vector<double> x = coordinates(batch / static_cast<double>(profile_.largest_batch), second);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::clamp(x[i], low_[i], high_[i]);
  return std::max(0.0, process_.predict(x).mean);
}

}  // namespace ndtrain
