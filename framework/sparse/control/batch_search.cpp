#include "framework/sparse/control/batch_search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <ostream>
#include <utility>

#include "framework/core/error.h"
#include "framework/numeric/nelder_mead.h"

namespace ndtrain {
namespace {

constexpr size_t kMostBalanced = 4096;  // batches that are looked at; of more, as many evenly

std::vector<double> as_doubles(std::span<const int64_t> batch) {
  std::vector<double> x;
  for (const int64_t b : batch) x.push_back(static_cast<double>(b));
  return x;
}

double sum_of(std::span<const double> x) { return std::accumulate(x.begin(), x.end(), 0.0); }

int64_t rounded(double x, int64_t largest) {
  return std::clamp<int64_t>(std::llround(x), 1, largest);
}

// The rows of a rank whose backward pass comes closest to `seconds`; of those that take the same
// the most.
int64_t rows_for(double seconds, const ThroughputModel& model, int64_t largest) {
  return rounded(std::max(std::floor(model.alpha), seconds * model.beta), largest);
}

// Seconds for which rows_for() gives each combination of all ranks' rows that there is: between
// those where one rank's rows change.
std::vector<double> balanced_seconds(const BatchObjective& objective) {
  std::vector<double> changes = {0};
  for (size_t r = 0; r < objective.largest().size(); ++r) {
    const ThroughputModel& model = objective.throughput()[r];
    const int64_t largest = objective.largest()[r];
    for (auto k = static_cast<int64_t>(model.alpha); k < largest; ++k) {
      changes.push_back((static_cast<double>(k) + 0.5) / model.beta);
    }
  }
  std::ranges::sort(changes);
  changes.push_back(2 * changes.back() + 1);
  const size_t stride = (changes.size() + kMostBalanced - 1) / kMostBalanced;
  std::vector<double> seconds;
  for (size_t i = 1; i < changes.size(); i += stride) {
    seconds.push_back((changes[i - 1] + changes[i]) / 2);
  }
  return seconds;
}

BestBatch best_balanced(const BatchObjective& objective) {
  BestBatch best{.batch = {}, .objective = std::numeric_limits<double>::infinity()};
  for (const double seconds : balanced_seconds(objective)) {
    std::vector<int64_t> batch;
    for (size_t r = 0; r < objective.largest().size(); ++r) {
      batch.push_back(rows_for(seconds, objective.throughput()[r], objective.largest()[r]));
    }
    const double value = objective(batch);
    if (!best.batch.empty() && value >= best.objective) continue;
    best = {.batch = std::move(batch), .objective = value};
  }
  return best;
}

BestBatch best_of_simplexes(const BatchObjective& objective,
                            std::span<const std::vector<double>> starts) {
  const std::vector<double> largest = as_doubles(objective.largest());
  const auto ranks = static_cast<int>(largest.size());
  // A coordinate that has one value is none to nelder_mead(): it is rounded away.
  Bounds bounds{.low = std::vector<double>(largest.size(), 1), .high = largest};
  for (double& high : bounds.high) high = std::max(high, 1.25);
  const NelderMeadOptions options{.evaluations = std::clamp(200 * ranks, 400, 4000),
                                  .tolerance = 1e-6};
  Minimum best{.at = {}, .value = 0};
  for (const std::vector<double>& start : starts) {
    Minimum m = nelder_mead([&](std::span<const double> x) { return objective(x); }, start, bounds,
                            options);
    if (best.at.empty() || m.value < best.value) best = std::move(m);
  }
  BestBatch whole;
  for (size_t r = 0; r < largest.size(); ++r) {
    whole.batch.push_back(rounded(best.at[r], objective.largest()[r]));
  }
  whole.objective = objective(whole.batch);
  return whole;
}

void descend(const BatchObjective& objective, BestBatch& best) {
  const auto most = static_cast<uint64_t>(std::ranges::max(objective.largest()));
  for (auto step = static_cast<int64_t>(std::bit_floor(most)); step > 0; step /= 2) {
    for (bool fell = true; fell;) {
      fell = false;
      for (size_t r = 0; r < best.batch.size(); ++r) {
        for (const int64_t by : {step, -step}) {
          std::vector<int64_t> next = best.batch;
          next[r] = std::clamp<int64_t>(next[r] + by, 1, objective.largest()[r]);
          const double value = objective(next);
          if (!(value < best.objective)) continue;
          best = {.batch = std::move(next), .objective = value};
          fell = true;
        }
      }
    }
  }
}

}  // namespace

BatchObjective::BatchObjective(std::vector<ThroughputModel> throughput,
                               std::vector<int64_t> largest, double bandwidth_mbps,
                               const SelectionSizes& sizes, const LossPenalty& penalty, int senders)
    : throughput_(std::move(throughput)),
      largest_(std::move(largest)),
      bandwidth_mbps_(bandwidth_mbps),
      sizes_(sizes),
      penalty_(penalty),
      senders_(senders > 0 ? senders : ranks()) {
  if (throughput_.size() < 2 || throughput_.size() != largest_.size()) {
    throw Error("batches: of ", throughput_.size(), " ranks, ", largest_.size(), " largest ones");
  }
  if (std::ranges::min(largest_) < 1) {
    throw Error("batches: the largest has ", std::ranges::min(largest_), " rows");
  }
  if (!std::isfinite(bandwidth_mbps) || bandwidth_mbps <= 0) {
    throw Error("batches: for ", bandwidth_mbps, " Mb/s");
  }
  double beta = 0;
  for (const ThroughputModel& m : throughput_) beta += m.beta;
  const ConvergenceProfile& profile = penalty.profile();
  std::vector<double> reference;
  for (const ThroughputModel& m : throughput_) {
    reference.push_back(static_cast<double>(profile.reference_batch) * m.beta / beta);
  }
  reference_mbps_ =
      goodput_mbps(sizes_, link_drop(profile.reference_drop, senders_), slowest_s(reference));
}

double BatchObjective::slowest_s(std::span<const double> batch) const {
  double slowest = 0;
  for (size_t r = 0; r < batch.size(); ++r) {
    slowest = std::max(slowest, throughput_[r].backward_s(batch[r]));
  }
  return slowest;
}

double BatchObjective::imbalance(std::span<const double> batch) const {
  std::vector<double> seconds;
  for (size_t r = 0; r < batch.size(); ++r) {
    seconds.push_back(throughput_[r].backward_s(batch[r]));
  }
  const auto n = static_cast<double>(seconds.size());
  const double mean = sum_of(seconds) / n;
  double square = 0;
  for (const double t : seconds) square += (t - mean) * (t - mean);
  return std::sqrt(square / n) / mean;
}

double BatchObjective::most_rows() const {
  return std::max(static_cast<double>(penalty_.profile().largest_batch),
                  static_cast<double>(ranks()));
}

double BatchObjective::drop_for(double seconds) const {
  return ndtrain::training_drop(least_drop(sizes_, seconds, bandwidth_mbps_), senders_);
}

double BatchObjective::training_drop(std::span<const double> batch) const {
  return drop_for(slowest_s(batch));
}

double BatchObjective::loss_penalty(std::span<const double> batch) const {
  const double second = penalty_.profile().over == ConvergenceProfile::Over::kDrop
                            ? training_drop(batch)
                            : bandwidth_mbps_ / reference_mbps_;
  return penalty_.at(sum_of(batch), second);
}

double BatchObjective::operator()(std::span<const double> batch) const {
  if (batch.size() != throughput_.size()) {
    throw Error("batches: ", batch.size(), " of ", throughput_.size(), " ranks");
  }
  const double rows = sum_of(batch);
  if (rows > most_rows()) return std::numeric_limits<double>::infinity();
  return (1 + kPenaltyWeight * loss_penalty(batch)) / (rows / slowest_s(batch)) +
         kImbalanceWeight * imbalance(batch);
}

double BatchObjective::operator()(std::span<const int64_t> batch) const {
  return (*this)(std::span<const double>(as_doubles(batch)));
}

BestBatch best_batch(const BatchObjective& objective, std::span<const std::vector<double>> starts) {
  if (starts.empty()) throw Error("batches: the search begins nowhere");
  BestBatch best = best_of_simplexes(objective, starts);
  BestBatch balanced = best_balanced(objective);
  descend(objective, best);
  descend(objective, balanced);
  return balanced.objective < best.objective ? balanced : best;
}

std::vector<std::vector<double>> random_starts(const BatchObjective& objective, int count,
                                               Rng rng) {
  std::vector<std::vector<double>> starts;
  for (int s = 0; s < count; ++s) {
    std::vector<double> start;
    for (const int64_t most : objective.largest()) {
      start.push_back(1 + rng.next_uniform() * static_cast<double>(most - 1));
    }
    // What a rank has above one row is scaled.
    const auto ranks = static_cast<double>(start.size());
    const double more = sum_of(start) - ranks, most = objective.most_rows() - ranks;
    if (more > most) {
      for (double& x : start) x = 1 + (x - 1) * most / more;
    }
    starts.push_back(std::move(start));
  }
  return starts;
}

}  // namespace ndtrain
