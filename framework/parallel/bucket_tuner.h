// The bucket size of a schedule, found while training goes on: some sizes are tried for a few steps
// each, a Bayesian search says which, and the fastest is kept (Zhang et al., "DeAR", ICDCS'23).
// Without clock or threads; a function of the seed and of the times it is told.
#pragma once

#include "framework/numeric/bayesian_search.h"

namespace ndtrain {

class BucketTuner {
 public:
  struct Options {
    int64_t first_bytes = int64_t{25} << 20;
    int64_t least_bytes = int64_t{1} << 20, most_bytes = int64_t{256} << 20;
    int trials = 10;
    int steps = 5;    // of a trial
    int counted = 2;  // of these, the last: before them buckets are made anew and caches fill
    double xi = 0.1;  // BayesianSearch::Options::xi
  };
  // Throws Error: sizes that are not in order or not above 0, no trials, none or too many counted.
  BucketTuner(Rng rng, Options options);

  // For the next step. When done, that of the fastest trial.
  int64_t bucket_bytes() const { return bucket_bytes_; }
  bool done() const { return trials_ == options_.trials; }
  // Of the fastest trial so far, a step of it; throws Error before the first has ended.
  double best_step_s() const { return search_.best().value; }

  // The last step took so long. Returns whether bucket_bytes() is now another. Nothing changes when
  // done. Throws Error unless `seconds` is a number from 0 up.
  bool step_took(double seconds);

 private:
  Options options_;
  BayesianSearch search_;  // over the binary logarithm of bytes: latency counts by ratios
  int64_t bucket_bytes_;
  int trials_ = 0, steps_ = 0;  // that have ended: in all, of the trial
  double counted_s_ = 0;
};

}  // namespace ndtrain
