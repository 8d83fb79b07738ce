// Convergence profiles of functions that tests know.
#pragma once

#include <cmath>

#include "framework/sparse/control/convergence_profile.h"

namespace ndtrain {

// `second`: of the bandwidth, or 1 - drop. Larger batches cost, and so does what is not sent.
struct KnownPenalty {
  double of_batch = 0.02, of_link = 0.03, decay = 2;
  double operator()(double batch_part, double second) const {
    return of_batch * batch_part * batch_part + of_link * std::exp(-decay * second);
  }
};

inline ConvergenceProfile known_profile(ConvergenceProfile::Over over, int64_t reference_batch,
                                        int64_t largest_batch, const KnownPenalty& penalty) {
  ConvergenceProfile p{.model = "net",
                       .over = over,
                       .reference_batch = reference_batch,
                       .reference_drop = 0.9,
                       .largest_batch = largest_batch};
  for (const double batch : {0.05, 0.25, 0.5, 0.75, 1.0}) {
    if (over == ConvergenceProfile::Over::kDrop) {
      for (const double drop : {0.0, 0.5, 0.8, 0.9, 0.97, 0.99, 0.999}) {
        p.points.push_back({batch, drop, penalty(batch, 1 - drop)});
      }
    } else {
      for (const double bandwidth : {0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0}) {
        p.points.push_back({batch, bandwidth, penalty(batch, bandwidth)});
      }
    }
  }
  return p;
}

}  // namespace ndtrain
