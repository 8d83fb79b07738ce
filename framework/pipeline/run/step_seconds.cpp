#include "framework/pipeline/run/step_seconds.h"

#include <algorithm>
#include <utility>

namespace ndtrain {

void StepSeconds::begin(int64_t steps) {
  since_ = clock_.monotonic();
  steps_ = steps;
}

void StepSeconds::step_done() {
  if (std::exchange(first_, false)) begin(steps_ - 1);
}

void StepSeconds::drained() {
  if (steps_ == 0) return;
  const double taken = std::chrono::duration<double>(clock_.monotonic() - since_).count();
  seconds_.insert(seconds_.end(), static_cast<size_t>(steps_), taken / static_cast<double>(steps_));
}

double StepSeconds::median() const {
  if (seconds_.empty()) return 0;
  std::vector<double> sorted = seconds_;
  const auto middle = sorted.begin() + std::ssize(sorted) / 2;
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

}  // namespace ndtrain
