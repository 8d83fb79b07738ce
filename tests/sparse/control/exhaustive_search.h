// J of StellaTrain, written apart from the code, and its least value over all whole batches.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "framework/sparse/control/throughput_model.h"

namespace ndtrain {

// h(rows of all ranks, seconds of the slowest rank's backward pass)
using PenaltyOf = std::function<double(double rows, double slowest_s)>;

inline double loss_rate(const std::vector<ThroughputModel>& ranks,
                        const std::vector<int64_t>& batch, const PenaltyOf& h) {
  double rows = 0, slowest = 0, mean = 0, square = 0;
  std::vector<double> seconds;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const auto x = static_cast<double>(batch[r]);
    const double f = x < ranks[r].alpha ? ranks[r].beta / ranks[r].alpha * x : ranks[r].beta;
    seconds.push_back(x / f);
    rows += x;
    slowest = std::max(slowest, x / f);
    mean += x / f / static_cast<double>(ranks.size());
  }
  for (const double t : seconds) square += (t - mean) * (t - mean);
  const double variation = std::sqrt(square / static_cast<double>(ranks.size())) / mean;
  return (1 + 50 * h(rows, slowest)) * slowest / rows + 5 * variation;
}

struct ExhaustiveBest {
  double value = std::numeric_limits<double>::infinity();
  std::vector<int64_t> batch;
};

inline ExhaustiveBest exhaustive_search(const std::vector<ThroughputModel>& ranks,
                                        const std::vector<int64_t>& largest, int64_t most_rows,
                                        const PenaltyOf& h) {
  ExhaustiveBest best;
  std::vector<int64_t> batch(ranks.size(), 1);
  while (true) {
    int64_t rows = 0;
    for (const int64_t b : batch) rows += b;
    if (rows <= most_rows) {
      if (const double value = loss_rate(ranks, batch, h); value < best.value) {
        best = {.value = value, .batch = batch};
      }
    }
    size_t r = 0;
    while (r < batch.size() && batch[r] == largest[r]) batch[r++] = 1;
    if (r == batch.size()) return best;
    ++batch[r];
  }
}

}  // namespace ndtrain
