#include "framework/pipeline/run/step_talk.h"

#include <algorithm>
#include <utility>

namespace ndtrain {
namespace {

// Behind those of values.
constexpr int kEndLane = CommOp::kLanes - 1, kReportLane = CommOp::kLanes - 2;

}  // namespace

StepTalk::StepTalk(Communicator& communicator, const RankGroup& tellers)
    : communicator_(communicator) {
  for (const int r : tellers) tellers_.push_back({.rank = r});
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
  for (Peer& p : peers_) p.end = begin(p.rank, me, kEndLane, {&p.stops, 1});
  for (Teller& t : tellers_) {
    t.reports.clear();
    if (t.rank != me) await_report(t);
  }
}

void StepTalk::await_report(Teller& from) {
  from.coming = begin(from.rank, communicator_.rank(), kReportLane, from.words);
}

void StepTalk::tell(const ShardReport& report) {
  const int me = communicator_.rank();
  std::ranges::find(tellers_, me, &Teller::rank)->reports.push_back(report);
  Words& words = told_.emplace_back(Words{report.loss, report.hits, report.top5, report.sound});
  for (const Peer& p : peers_) sent_.push_back(begin(me, p.rank, kReportLane, words));
}

StepReport StepTalk::report(int64_t step) {
  std::vector<ShardReport> all;
  for (Teller& t : tellers_) all.push_back(report(t, step));
  return sum_of(all);
}

const ShardReport& StepTalk::report(Teller& from, int64_t step) {
  while (std::ssize(from.reports) <= step) {
    communicator_.wait(from.coming);
    const Words& w = from.words;
    from.reports.push_back({.loss = w[0], .hits = w[1], .top5 = w[2], .sound = w[3]});
    if (std::ssize(from.reports) < steps_) await_report(from);
  }
  return from.reports[static_cast<size_t>(step)];
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
