// A convergence profile between its points: a Gaussian process (constant x Matern-5/2 + noise).
#pragma once

#include <cstdint>

#include "framework/numeric/gaussian_process.h"
#include "framework/sparse/control/convergence_profile.h"

namespace ndtrain {

class LossPenalty {
 public:
  // A function of profile and seed. Throws Error where validate() does.
  explicit LossPenalty(ConvergenceProfile profile, uint64_t seed = 0);

  // With a batch of so many rows on all ranks together, and a bandwidth, in parts of what the
  // reference needs, or a training's drop. From 0 up, whatever the profile says of noise. Outside
  // of what was measured as at its edge: a process would go back to its mean there. Of drops the
  // process knows log10(1 - drop), since .9 differs from .99 as .99 does from .999.
  double at(double batch, double second) const;

  const ConvergenceProfile& profile() const { return profile_; }

 private:
  std::vector<double> coordinates(double batch_part, double second) const;

  ConvergenceProfile profile_;
  std::vector<double> low_, high_;  // coordinates of what was measured
  GaussianProcess process_;
};

}  // namespace ndtrain
