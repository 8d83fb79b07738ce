// The batches of all ranks that let the loss fall fastest (StellaTrain, section 4): x that makes
// least
//
//   J(x) = (1 + 50 h) / (sum x / T_max) + 5 cv(T)
//
// T_i = x_i / f_i(x_i): seconds of rank i's backward pass; T_max: of the slowest rank; cv: their
// deviation (of all ranks, not of a sample) in parts of their mean; h: the loss penalty of sum x
// rows with the bandwidth B there is: h(sum x, B / G_ref), or of a profile over drops h(sum x,
// drop), the drop with which selections fit into B. G_ref: the goodput with the reference's drop of
// its batch, shared out by the ranks' beta.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/core/rng.h"
#include "framework/sparse/control/goodput.h"
#include "framework/sparse/control/loss_penalty.h"
#include "framework/sparse/control/throughput_model.h"

namespace ndtrain {

class BatchObjective {
 public:
  static constexpr double kPenaltyWeight = 50, kImbalanceWeight = 5;

  // Of two ranks or more, `largest` rows for each; so many of them send, 0: all. Keeps references.
  // Throws Error: other numbers of ranks, a largest batch below 1, a bandwidth that is not above 0.
  BatchObjective(std::vector<ThroughputModel> throughput, std::vector<int64_t> largest,
                 double bandwidth_mbps, const SelectionSizes& sizes, const LossPenalty& penalty,
                 int senders = 0);

  // J, of rows that need not be whole. Infinite above most_rows().
  double operator()(std::span<const double> batch) const;
  double operator()(std::span<const int64_t> batch) const;

  double slowest_s(std::span<const double> batch) const;      // T_max
  double imbalance(std::span<const double> batch) const;      // cv(T)
  double loss_penalty(std::span<const double> batch) const;   // h
  double training_drop(std::span<const double> batch) const;  // in force with these batches
  double reference_mbps() const { return reference_mbps_; }   // G_ref

  // Of all ranks that are looked at: as many as the profile knows of, since of more it would look
  // as if they cost nothing; but one of each rank.
  double most_rows() const;

  int ranks() const { return static_cast<int>(throughput_.size()); }
  const std::vector<ThroughputModel>& throughput() const { return throughput_; }
  const std::vector<int64_t>& largest() const { return largest_; }

 private:
  double drop_for(double seconds) const;

  std::vector<ThroughputModel> throughput_;
  std::vector<int64_t> largest_;
  double bandwidth_mbps_;
  const SelectionSizes& sizes_;
  const LossPenalty& penalty_;
  int senders_;
  double reference_mbps_ = 0;
};

struct BestBatch {
  std::vector<int64_t> batch;
  double objective = 0;  // J
};

// 1 <= x_i <= largest_i. Adaptive Nelder-Mead from all `starts`, its best rounded; cv makes whole
// numbers of rows count that are in proportion, which no simplex finds, so also the balanced
// batches: for each T all ranks' rows that come closest to it. From the better of the two by steps
// of powers of two of one rank's rows, as long as J falls. Throws Error: no starts, a start of
// another number of ranks.
BestBatch best_batch(const BatchObjective& objective, std::span<const std::vector<double>> starts);

// Within the bounds, and, by all ranks alike, not above most_rows().
std::vector<std::vector<double>> random_starts(const BatchObjective& objective, int count, Rng rng);

}  // namespace ndtrain
