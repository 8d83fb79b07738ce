#include "framework/pipeline/schedules/stage_account.h"

#include <algorithm>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

void expect(bool holds, const Instruction& i, std::string_view what, int64_t value) {
  if (!holds) throw Error("pipeline: ", describe(i), " on version ", i.version, ", ", what, value);
}

}  // namespace

void StageAccount::take(const Instruction& i) {
  switch (i.op) {
    case PipeOp::kForward:
      return forward(i);
    case PipeOp::kRecompute:
    case PipeOp::kBackward:
    case PipeOp::kBackwardInput:
      return take_back(i);
    case PipeOp::kBackwardWeight:
      return take_back_weights(i);
    case PipeOp::kUpdate:
      return update(i);
    case PipeOp::kFlush:
      return flush(i);
    default:
      return;
  }
}

void StageAccount::forward(const Instruction& i) {
  expect(i.micro_batch == forwarded_, i, "where the next is micro-batch ", forwarded_);
  expect(i.version >= 0 && i.version <= newest_, i, "where the newest is ", newest_);
  ++forwarded_;
  if (!trains_) return;
  const int64_t before = versions_.empty() ? 0 : versions_.back();
  expect(i.version >= before, i, "behind one on version ", before);
  versions_.push_back(i.version);
  most_in_flight_ = std::max(most_in_flight_, forwarded_ - done_);
  most_versions_ = std::max(most_versions_, newest_ - versions_.front() + 1);
}

void StageAccount::take_back(const Instruction& i) {
  expect(i.micro_batch == taken_back_, i, "where the next is micro-batch ", taken_back_);
  expect(taken_back_ < forwarded_ && trains_, i, "where so many are forwarded: ", forwarded_);
  const int64_t version = versions_[static_cast<size_t>(taken_back_ - done_)];
  expect(i.version == version, i, "which was forwarded on version ", version);
  if (i.op == PipeOp::kRecompute) return;
  ++taken_back_;
  if (i.op == PipeOp::kBackward) done_with_one();
}

void StageAccount::take_back_weights(const Instruction& i) {
  expect(i.micro_batch == done_, i, "where the next is micro-batch ", done_);
  expect(done_ < taken_back_, i, "where so many are taken back: ", taken_back_);
  expect(i.version == versions_.front(), i, "which was forwarded on version ", versions_.front());
  done_with_one();
}

void StageAccount::done_with_one() {
  ++done_;
  versions_.pop_front();
}

void StageAccount::update(const Instruction& i) {
  expect(i.version == newest_, i, "where the newest is ", newest_);
  expect(i.micro_batch + 1 == done_, i, "where so many micro-batches are taken back: ", done_);
  ++newest_;
  if (!versions_.empty()) {
    most_versions_ = std::max(most_versions_, newest_ - versions_.front() + 1);
  }
}

void StageAccount::flush(const Instruction& i) {
  expect(!trains_ || done_ == forwarded_, i, "where so many are in flight: ", forwarded_ - done_);
  newest_ = forwarded_ = taken_back_ = done_ = 0;
}

}  // namespace ndtrain
