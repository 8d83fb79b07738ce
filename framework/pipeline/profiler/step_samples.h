// Seconds of the nodes of a step over many runs, told apart as a profile has them. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/pipeline/planner/model_profile.h"
#include "framework/train/step_nodes.h"

namespace ndtrain {

// Mean, median and standard deviation; of none, zeros.
NodeTime time_of(std::vector<double> seconds);

class StepSamples {
 public:
  StepSamples(const StepGraph& step, const StepNodes& nodes);

  // Of each node of the step's graph, in one run.
  void add(std::span<const double> seconds);
  // Of node n of `nodes`. The gradient of what it reads is what backward passes of other nodes wait
  // for, with parameters' where one kernel makes both; the rest of its own is its parameters'. What
  // undoes a loss scale is the loss's.
  NodeTime forward(size_t n) const { return time(kForward, n); }
  NodeTime input_gradient(size_t n) const { return time(kInputGradient, n); }
  NodeTime weight_gradient(size_t n) const { return time(kWeightGradient, n); }

 private:
  enum Side : uint8_t { kForward, kInputGradient, kWeightGradient, kSides };
  struct Place {
    Side side = kForward;
    size_t part = 0;
  };
  NodeTime time(Side side, size_t n) const { return time_of(samples_[side][n]); }

  std::vector<Place> places_;                         // by node of the graph
  std::vector<std::vector<double>> samples_[kSides];  // by part
};

}  // namespace ndtrain
