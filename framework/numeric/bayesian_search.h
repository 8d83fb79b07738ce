// A minimum of a costly function in few evaluations (Jones et al., "Efficient global optimization",
// 1998): a Gaussian process of what is known says where most improvement is to be expected.
#pragma once

#include "framework/numeric/gaussian_process.h"
#include "framework/numeric/minimum.h"

namespace ndtrain {

// How much less than best - xi a value of this distribution is on average, where it is less.
double expected_improvement(const GaussianProcess::Prediction& p, double best, double xi);

// One question at a time; the answers are a function of the seed and of what was told.
class BayesianSearch {
 public:
  struct Options {
    double xi = 0.1;          // the improvement that counts as none, in deviations of the values
    int candidates = 10'000;  // random points, of which the most promising is asked for
  };
  // Throws Error where validate() does, and without candidates.
  BayesianSearch(Bounds bounds, Rng rng, Options options);

  // A point to evaluate next: the middle when nothing is known.
  std::vector<double> ask();
  // Of any point within the bounds, asked for or not. Throws Error: outside, not finite.
  void tell(std::span<const double> x, double y);

  // Of those told; throws Error when there are none.
  Minimum best() const;

 private:
  std::vector<double> scaled(std::span<const double> x) const;  // to 0 … 1

  Bounds bounds_;
  Rng rng_;
  Options options_;
  std::vector<std::vector<double>> x_;  // as they were told
  std::vector<double> y_;
};

}  // namespace ndtrain
