// Methods against staleness: what makes up for parameters that are some updates old, where a
// schedule has several versions of them. All of it is off until it is asked for.
#pragma once

#include <cstdint>
#include <string_view>

#include "framework/train/optimizer.h"

namespace ndtrain {

struct Staleness {
  // The learning rate of a stage that is d updates late is divided by d^(1 - min(k/K, 1)) in step k
  // of the training, from 0, where this is K; 0: it is not (Yang et al., "PipeMare: Asynchronous
  // pipeline parallel DNN training", MLSys'21, T1).
  int64_t lr_scale_steps = 0;
  // It computes on W - d lr m, which is what W is expected to be d updates later, m being the
  // momentum and lr the rate of the next update (Chen et al., "Efficient and robust parallel DNN
  // training through model parallelism on multi-GPU platform", 2018: SpecTrain).
  bool predict = false;
  // To its gradients g are added lambda g g (W - V), where they are of V and applied to W; this is
  // lambda (Zheng et al., "Asynchronous stochastic gradient descent with delay compensation",
  // ICML'17).
  double compensation = 0;

  bool any() const { return lr_scale_steps > 0 || predict || compensation > 0; }
  // Throws Error: out of range, or momentum that is no step of this optimizer.
  void check(const OptimizerConfig& optimizer) const;
  // What the learning rate is multiplied by, in that step of the training, from 0.
  double lr_factor(int updates_late, int64_t step) const;
  bool operator==(const Staleness&) const = default;
};

// "lr-scale:500,predict,delay-compensation:0.04", in any order; throws Error.
Staleness parse_staleness(std::string_view text);

}  // namespace ndtrain
