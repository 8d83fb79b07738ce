#include "framework/pipeline/run/step_seconds.h"

#include <algorithm>
#include <utility>

namespace ndtrain {

void StepSeconds::begin(int64_t steps) {
  since_ = clock_.monotonic();
  alone_ = steps == 1;
  counts_ = alone_ && !std::exchange(first_, false);
}

void StepSeconds::count() {
  const std::chrono::nanoseconds now = clock_.monotonic();
  if (counts_) seconds_.push_back(std::chrono::duration<double>(now - since_).count());
  since_ = now;
}

void StepSeconds::step_done() {
  if (alone_) return;
  count();
  counts_ = true;
}

void StepSeconds::drained() {
  if (alone_) count();
}

double StepSeconds::median() const {
  if (seconds_.empty()) return 0;
  std::vector<double> sorted = seconds_;
  const auto middle = sorted.begin() + std::ssize(sorted) / 2;
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

}  // namespace ndtrain
