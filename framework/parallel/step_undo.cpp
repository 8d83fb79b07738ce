#include "framework/parallel/step_undo.h"

#include <algorithm>

namespace ndtrain {

std::vector<float*> StepUndo::places_of(ParameterRange range) {
  std::vector<float*> places = optimizer_.moments(range);
  places.insert(places.begin(), parameters_.values(range.begin));
  memory_.resize(places.size() * static_cast<size_t>(parameters_.size()));
  return places;
}

void StepUndo::keep(ParameterRange range, int64_t step) {
  if (step != step_) ranges_.clear();
  step_ = step;
  ranges_.push_back(range);
  const std::vector<float*> places = places_of(range);
  float* to = memory_.data() + range.begin;
  for (const float* from : places) {
    std::copy_n(from, range.size(), to);
    to += parameters_.size();
  }
}

void StepUndo::take_back(int64_t steps) {
  if (!ranges_.empty() && step_ > steps + 1) {
    throw Error("step ", step_, " cannot be taken back to step ", steps);
  }
  for (const ParameterRange& range : ranges_) {
    if (step_ <= steps) break;
    const float* from = memory_.data() + range.begin;
    for (float* to : places_of(range)) {
      std::copy_n(from, range.size(), to);
      from += parameters_.size();
    }
  }
  forget();
}

}  // namespace ndtrain
