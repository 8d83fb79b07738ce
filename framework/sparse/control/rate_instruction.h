// What ranks do from a step on, and what is in force at one.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace ndtrain {

struct RateInstruction {
  int64_t from_step = 0;       // on all ranks
  std::vector<int64_t> batch;  // rows of each rank
  double drop = 0;             // SparseSyncOptions::drop

  bool operator==(const RateInstruction&) const = default;
};

class RateSchedule {
 public:
  // `first` is in force from its step on. Throws Error: no ranks, a batch below 1, a drop that is
  // none.
  explicit RateSchedule(const RateInstruction& first);

  // Throws Error: of another number of ranks; not later than the last one, or too late: a step is
  // begun (begin_step()) that it would have changed. Nothing has changed then.
  void add(RateInstruction next);

  // In force at that step. Throws Error: of a step before the first that is kept.
  const RateInstruction& at(int64_t step) const;
  // The same; this step and those before it are begun, and what is not in force any more goes.
  const RateInstruction& begin_step(int64_t step);
  // What is not in force at this step nor later goes.
  void forget_before(int64_t step);

  const RateInstruction& last() const { return schedule_.back(); }

 private:
  std::deque<RateInstruction> schedule_;  // by from_step
  int64_t begun_;                         // the last step
};

}  // namespace ndtrain
