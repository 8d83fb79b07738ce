#include "framework/sparse/plan/steps_factor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/sparse/control/batch_search.h"

namespace ndtrain {
namespace {

// What is assumed, of fine-tunings of few epochs: measured once here, the steps to the loss that
// exact gradients had come to (docs/sparse.md, "Time to accuracy"), rounded up.
// Of a drop: .9 is one, .99 two. What threshold-v16 takes is not the largest.
constexpr double kSparsePerDecade = 1.25, kLargestPerDecade = 0.6;
constexpr double kPerStaleStep = 0.1;  // by Adam; SGD with momentum may need more
constexpr double kLowRank = 1.05, kLowRankOfOne = 1.3;
// Of inner steps; the last where fragments agree in turn.
constexpr double kLocalPerDecade = 0.7, kOuterPerDecade = 1.2, kStreamedPerDecade = 0.6;

double decades(double drop) { return -std::log10(1 - drop); }

// What a convergence profile knows nothing of.
double stale_factor(const SparseSyncOptions& options) {
  return 1 + kPerStaleStep * options.staleness;
}

}  // namespace

StepsFactor assumed_steps_factor(const ExchangeMethod& method) {
  if (const auto* sparse = std::get_if<SparseSyncOptions>(&method.options)) {
    const double per_decade = sparse->compressor == "topk" ? kLargestPerDecade : kSparsePerDecade;
    return {(1 + per_decade * decades(sparse->drop)) * stale_factor(*sparse), "assumed"};
  }
  if (const auto* low_rank = std::get_if<PowerSgdOptions>(&method.options)) {
    return {low_rank->rank > 1 ? kLowRank : kLowRankOfOne, "assumed"};
  }
  if (const auto* local = std::get_if<LocalStepsOptions>(&method.options)) {
    const double per_decade = local->outer_momentum == 0 ? kLocalPerDecade
                              : local->fragments > 1     ? kStreamedPerDecade
                                                         : kOuterPerDecade;
    return {1 + per_decade * std::log10(static_cast<double>(local->inner_steps)), "assumed"};
  }
  return {1, "exact"};
}

StepsFactor measured_steps_factor(const ExchangeMethod& method, const LossPenalty& penalty,
                                  double rows, const SelectionSizes& sizes, int ranks) {
  const ConvergenceProfile& profile = penalty.profile();
  const auto* const sparse = std::get_if<SparseSyncOptions>(&method.options);
  double second = sparse != nullptr ? sparse->drop : 0;
  if (profile.over == ConvergenceProfile::Over::kBandwidth) {
    second = selection_bytes(sizes, link_drop(second, ranks)) /
             selection_bytes(sizes, link_drop(profile.reference_drop, ranks));
  }
  const double h = penalty.at(rows, second);
  const StepsFactor rest = sparse != nullptr ? StepsFactor{stale_factor(*sparse), "assumed"}
                                             : assumed_steps_factor(method);
  std::string source = fmt::format("penalty {:.3g}", h);
  if (rest.factor != 1) source += fmt::format(", x{:.3g} assumed", rest.factor);
  return {(1 + BatchObjective::kPenaltyWeight * h) * rest.factor, source};
}

}  // namespace ndtrain
