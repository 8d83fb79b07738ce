#include "framework/pipeline/run/step_talk.h"

#include <algorithm>
#include <utility>

namespace ndtrain {
namespace {

// Behind those of values.
constexpr int kEndLane = CommOp::kLanes - 1, kReportLane = CommOp::kLanes - 2;

}  // namespace

StepTalk::StepTalk(Communicator& communicator) : communicator_(communicator) {
  for (int r = 0; r < communicator.ranks(); ++r) {
    if (r != communicator.rank()) peers_.push_back({.rank = r});
  }
}

Communicator::Op StepTalk::begin(int from, int to, int lane, std::span<float> words) {
  CommOp op{.kind = CommOp::Kind::kMessage,
            .group = {std::min(from, to), std::max(from, to)},
            .name = lane == kEndLane ? "the end of a step" : "a loss"};
  op.data = words;
  op.root = from;
  op.lane = lane;
  const Communicator::Op id = communicator_.enqueue(std::move(op));
  communicator_.release(id);
  return id;
}

void StepTalk::begin(int64_t steps) {
  const int me = communicator_.rank();
  steps_ = steps;
  reports_.clear();
  for (Peer& p : peers_) p.end = begin(p.rank, me, kEndLane, {&p.stops, 1});
  if (!is_last()) await_report();
}

void StepTalk::await_report() {
  coming_ = begin(communicator_.ranks() - 1, communicator_.rank(), kReportLane, words_);
}

void StepTalk::tell(const ShardReport& report) {
  reports_.push_back(report);
  Words& words = told_.emplace_back(Words{report.loss, report.hits, report.top5, report.sound});
  for (const Peer& p : peers_) {
    sent_.push_back(begin(communicator_.rank(), p.rank, kReportLane, words));
  }
}

ShardReport StepTalk::report(int64_t step) {
  while (std::ssize(reports_) <= step) {
    communicator_.wait(coming_);
    reports_.push_back(
        {.loss = words_[0], .hits = words_[1], .top5 = words_[2], .sound = words_[3]});
    if (std::ssize(reports_) < steps_) await_report();
  }
  return reports_[static_cast<size_t>(step)];
}

bool StepTalk::end(bool stop) {
  stop_ = stop ? 1 : 0;
  for (const Peer& p : peers_) {
    sent_.push_back(begin(communicator_.rank(), p.rank, kEndLane, {&stop_, 1}));
  }
  for (const Peer& p : peers_) {
    communicator_.wait(p.end);
    stop = stop || p.stops > 0;
  }
  for (const Communicator::Op op : std::exchange(sent_, {})) communicator_.wait(op);
  told_.clear();
  return stop;
}

}  // namespace ndtrain
