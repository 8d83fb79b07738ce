// Which batch and drop a convergence profile is measured at next (StellaTrain, section 4): first
// the smallest batch with nothing dropped, then some at random, then where a Gaussian process of
// what is known says that most improvement of the loss is to be expected.
#pragma once

#include <cstdint>
#include <span>

#include "framework/sparse/control/convergence_profile.h"

namespace ndtrain {

struct ConvergenceSearch {
  // Rows of all ranks, in multiples of `multiple` (as many as there are ranks).
  int64_t smallest_batch = 0, largest_batch = 0, multiple = 1;
  double most_drop = 0.999;
  int random_points = 5;
  double xi = 0.01;  // the improvement that counts as none, in deviations of what is known
  uint64_t seed = 0;

  struct Point {
    int64_t batch = 0;
    double drop = 0;  // of 4 digits
    bool operator==(const Point&) const = default;
  };

  // Behind these of the profile. A function of them and the members: what is interrupted goes on
  // with the same. Another than all of them, where there is another.
  Point next(std::span<const ConvergenceProfile::Point> known) const;
};

// Throws Error naming the member: batches that are not 1 <= multiple <= smallest < largest, a drop
// that is not above 0 and at most .9999, fewer random points than 0.
void validate(const ConvergenceSearch& search);

}  // namespace ndtrain
