#include "framework/sparse/control/rate_instruction.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

const RateInstruction& checked(const RateInstruction& i) {
  if (i.batch.empty()) throw Error("instruction for step ", i.from_step, ": for no ranks");
  if (std::ranges::min(i.batch) < 1) {
    throw Error("instruction for step ", i.from_step, ": a batch of ", std::ranges::min(i.batch));
  }
  if (!(i.drop >= 0 && i.drop < 1)) {
    throw Error("instruction for step ", i.from_step, ": a drop of ", i.drop);
  }
  return i;
}

}  // namespace

RateSchedule::RateSchedule(const RateInstruction& first)
    : schedule_{checked(first)}, begun_(first.from_step - 1) {}

void RateSchedule::add(RateInstruction next) {
  checked(next);
  if (next.batch.size() != last().batch.size()) {
    throw Error("instruction for step ", next.from_step, ": for ", next.batch.size(), " ranks of ",
                last().batch.size());
  }
  if (next.from_step <= last().from_step) {
    throw Error("instruction for step ", next.from_step, ": there is one for step ",
                last().from_step);
  }
  if (next.from_step <= begun_) {
    throw Error("instruction for step ", next.from_step, ": too late, step ", begun_, " has begun");
  }
  schedule_.push_back(std::move(next));
}

const RateInstruction& RateSchedule::at(int64_t step) const {
  for (auto i = schedule_.rbegin(); i != schedule_.rend(); ++i) {
    if (i->from_step <= step) return *i;
  }
  throw Error("instructions: those of step ", step, " are not kept");
}

const RateInstruction& RateSchedule::begin_step(int64_t step) {
  begun_ = std::max(begun_, step);
  forget_before(step);
  return at(step);
}

void RateSchedule::forget_before(int64_t step) {
  while (schedule_.size() > 1 && schedule_[1].from_step <= step) schedule_.pop_front();
}

}  // namespace ndtrain
