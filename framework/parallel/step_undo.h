// What the updates of the last step have replaced: values and moments, in memory of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "framework/train/optimizer.h"

namespace ndtrain {

// One step back, so that ranks of which some have updated and others have not can go on from the
// same one. As large as the values and the moments, from the first update on. Not thread-safe.
class StepUndo {
 public:
  // Keeps references. Of moments that are all kept here, in memory of the host.
  StepUndo(ParameterSpace& parameters, Optimizer& optimizer)
      : parameters_(parameters), optimizer_(optimizer) {}

  // Ahead of the update of these elements by `step` (HyperParameters::step). Those of another step
  // are forgotten.
  void keep(ParameterRange range, int64_t step);
  // Values and moments are again those after `steps` steps, of which at most the last one kept is
  // too many.
  void take_back(int64_t steps);
  void forget() { ranges_.clear(); }

  size_t bytes() const { return memory_.size() * sizeof(float); }

 private:
  std::vector<float*> places_of(ParameterRange range);  // values, then each moment

  ParameterSpace& parameters_;
  Optimizer& optimizer_;
  std::vector<float> memory_;  // one part as long as the space for each of these
  std::vector<ParameterRange> ranges_;
  int64_t step_ = 0;  // of their updates
};

}  // namespace ndtrain
