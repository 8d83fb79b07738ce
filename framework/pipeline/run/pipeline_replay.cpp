#include "framework/pipeline/run/pipeline_replay.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "framework/parallel/between_ranks.h"

namespace ndtrain {
namespace {

std::vector<int> replicas_of(const PipeShape& shape, const PipelineCosts& costs) {
  return costs.replicas.empty() ? std::vector<int>(static_cast<size_t>(shape.ranks()), 1)
                                : costs.replicas;
}

size_t floats_of(double bytes) {
  return std::max<size_t>(1, static_cast<size_t>(std::ceil(bytes / sizeof(float))));
}

// As simulate_pipeline() has it: those of the second half. 0: there are not two.
double between(const std::vector<double>& updates_s) {
  const size_t n = updates_s.size();
  if (n < 2) return 0;
  const size_t from = (n - 1) / 2;
  return (updates_s.back() - updates_s[from]) / static_cast<double>(n - 1 - from);
}

}  // namespace

PipelineReplay::PipelineReplay(const PipelineSchedule& schedule, const PipeShape& shape,
                               const PipelineCosts& costs, Communicator& communicator, Clock& clock)
    : schedule_(schedule),
      shape_(shape),
      costs_(costs),
      edges_(edges_of(shape)),
      communicator_(communicator),
      clock_(clock),
      ranks_(replicas_of(shape, costs)),
      place_(ranks_.place_of(communicator.rank())),
      replica_(ranks_.replica_of(communicator.rank())) {
  if (ranks_.ranks() != communicator_.ranks()) {
    throw Error("a pipeline of ", ranks_.ranks(), " ranks, but there are ", communicator_.ranks());
  }
  (void)simulate_pipeline(schedule, shape, costs);  // which refuses what does not fit
}

double PipelineReplay::run() {
  const std::vector<Instruction> list = schedule_.instructions(shape_, place_);
  int last = shape_.stages - 1;
  while (last > 0 && !shape_.trains(last)) --last;
  std::vector<double> updates_s;  // when the last stage that trains was updated
  barrier(communicator_);
  device_.emplace(clock_);
  const auto begun = clock_.monotonic();
  const auto now = [&] {
    return std::chrono::duration<double>(clock_.monotonic() - begun).count();
  };
  for (const Instruction& i : list) {
    carry_out(i);
    if (i.op == PipeOp::kUpdate && i.stage == last) updates_s.push_back(now());
  }
  const std::array<double, 2> ours = {now(), between(updates_s)};
  std::string bytes(sizeof ours, '\0');
  std::memcpy(bytes.data(), ours.data(), sizeof ours);
  std::vector<std::array<double, 2>> all;
  double end_s = 0;
  for (const std::string& theirs : gather(communicator_, bytes)) {
    std::memcpy(all.emplace_back().data(), theirs.data(), sizeof ours);
    end_s = std::max(end_s, all.back()[0]);
  }
  const double of_last = all[static_cast<size_t>(ranks_.rank_of(shape_.rank_of(last)))][1];
  return of_last > 0 ? of_last : end_s / static_cast<double>(shape_.mini_batches);
}

double PipelineReplay::rows_share() const {
  const RowInterval own = rows_of(costs_.rows, replica_, ranks_.replicas(place_));
  return static_cast<double>(own.size()) / static_cast<double>(costs_.rows);
}

double PipelineReplay::seconds_of(const Instruction& i) const {
  const PipelineCosts::Stage& s = costs_.stages[static_cast<size_t>(i.stage)];
  switch (i.op) {
    case PipeOp::kForward:
      return s.forward_s * rows_share();
    case PipeOp::kRecompute:
      return s.recompute_s * rows_share();
    case PipeOp::kBackward:
      return (s.input_s + s.weight_s) * rows_share();
    case PipeOp::kBackwardInput:
      return s.input_s * rows_share();
    case PipeOp::kBackwardWeight:
      return s.weight_s * rows_share();
    default:
      return s.update_s;
  }
}

void PipelineReplay::carry_out(const Instruction& i) {
  if (is_send(i.op)) return send(i);
  if (is_receive(i.op)) return receive(i);
  if (i.op == PipeOp::kGradSync) return exchange(i);
  if (i.op != PipeOp::kFlush) return device_->compute(seconds_of(i));
  for (auto& [_, sent] : sent_) {
    while (!sent.empty()) wait_for_oldest(sent);
  }
}

const PipelineCosts::Edge& PipelineReplay::edge_of(const Instruction& i) const {
  const int from = std::min(i.stage, i.peer), to = std::max(i.stage, i.peer);
  const auto is_it = [&](const StageEdge& e) { return e.from == from && e.to == to; };
  const auto edge = std::ranges::find_if(edges_, is_it);
  return costs_.edges[static_cast<size_t>(edge - edges_.begin())];
}

double PipelineReplay::bytes_of(const Instruction& i) const {
  if (costs_.edges.empty()) return 0;
  const bool forward = i.op == PipeOp::kSendActivation || i.op == PipeOp::kReceiveActivation;
  return forward ? edge_of(i).activation_bytes : edge_of(i).gradient_bytes;
}

Communicator::Op PipelineReplay::message(const Instruction& i, int from, int to,
                                         std::span<float> data) {
  const auto chunk = [&](int stage) { return stage / shape_.ranks(); };
  const int first = is_send(i.op) ? i.stage : i.peer, second = is_send(i.op) ? i.peer : i.stage;
  CommOp op{.kind = CommOp::Kind::kMessage,
            .group = {std::min(from, to), std::max(from, to)},
            .name = describe(i)};
  op.data = data;
  op.root = from;
  op.lane = chunk(first) * shape_.chunks + chunk(second);
  const Communicator::Op id = communicator_.enqueue(std::move(op));
  communicator_.release(id);
  return id;
}

void PipelineReplay::send(const Instruction& i) {
  const int rank = communicator_.rank();
  const auto peers = ranks_.receivers(rank, shape_.rank_of(i.peer), costs_.rows);
  std::deque<Sent>& sent = sent_[{i.stage, i.peer}];
  const int64_t most = schedule_.most_in_flight(shape_, std::min(i.stage, i.peer));
  while (!sent.empty() && std::ssize(sent) >= most * std::ssize(peers)) wait_for_oldest(sent);
  const double own_rows = rows_share() * static_cast<double>(costs_.rows);
  for (const StageRanks::Peer& peer : peers) {
    const double part = peer.rows ? static_cast<double>(peer.rows->size()) : own_rows;
    Sent& next = sent.emplace_back();
    next.memory.resize(floats_of(bytes_of(i) * part / static_cast<double>(costs_.rows)));
    next.op = message(i, rank, peer.rank, next.memory);
  }
}

void PipelineReplay::receive(const Instruction& i) {
  const int rank = communicator_.rank();
  const double own_rows = rows_share() * static_cast<double>(costs_.rows);
  std::deque<Sent> coming;
  for (const StageRanks::Peer& peer : ranks_.senders(rank, shape_.rank_of(i.peer), costs_.rows)) {
    const double part = peer.rows ? static_cast<double>(peer.rows->size()) : own_rows;
    Sent& next = coming.emplace_back();
    next.memory.resize(floats_of(bytes_of(i) * part / static_cast<double>(costs_.rows)));
    next.op = message(i, peer.rank, rank, next.memory);
  }
  while (!coming.empty()) wait_for_oldest(coming);
}

void PipelineReplay::exchange(const Instruction& i) {
  const RankGroup group = ranks_.group(place_);
  if (group.size() == 1) return;
  const Communicator::Op all_are_here =
      communicator_.enqueue({.kind = CommOp::Kind::kBarrier, .group = group, .name = describe(i)});
  communicator_.release(all_are_here);
  wait_for(all_are_here);
  device_->compute(costs_.stages[static_cast<size_t>(i.stage)].exchange_s);
}

void PipelineReplay::wait_for(Communicator::Op op) {
  device_->run([&] { communicator_.wait(op); }, [&] { return communicator_.waited_s(); });
}

void PipelineReplay::wait_for_oldest(std::deque<Sent>& sent) {
  wait_for(sent.front().op);
  sent.pop_front();
}

}  // namespace ndtrain
