#include "framework/pipeline/schedules/pipeline_messages.h"

#include <algorithm>

#include "framework/core/error.h"
#include "framework/pipeline/schedules/replicas.h"

namespace ndtrain {

PipelineMessages::PipelineMessages(const PipeShape& shape, const PipelineCosts& costs,
                                   std::span<const int64_t> buffers, std::vector<int> first_row)
    : first_row_(std::move(first_row)) {
  const auto rows = static_cast<size_t>(first_row_.back());
  free_s_.resize(rows * rows);
  const auto row_of = [&](int stage) {
    return first_row_[static_cast<size_t>(shape.rank_of(stage))];
  };
  const auto replicas_of = [&](int stage) {
    return first_row_[static_cast<size_t>(shape.rank_of(stage)) + 1] - row_of(stage);
  };
  const std::vector<StageEdge> edges = edges_of(shape);
  for (size_t e = 0; e < edges.size(); ++e) {
    const int from = edges[e].from, to = edges[e].to;
    const PipelineCosts::Edge cost = costs.edges.empty() ? PipelineCosts::Edge{} : costs.edges[e];
    Lane there{.buffer = static_cast<size_t>(buffers[static_cast<size_t>(from)])};
    Lane back = there;
    for (const RowTransfer& t : route(costs.rows, replicas_of(from), replicas_of(to))) {
      const double part = static_cast<double>(t.rows.size()) / static_cast<double>(costs.rows);
      const double s_per_byte = cost.bytes_per_s > 0 ? part / cost.bytes_per_s : 0;
      const int a = row_of(from) + t.from, b = row_of(to) + t.to;
      there.channels.push_back({a, b, cost.activation_bytes * s_per_byte, cost.latency_s});
      back.channels.push_back({b, a, cost.gradient_bytes * s_per_byte, cost.latency_s});
    }
    if (edges[e].activation) lanes_[{from, to}] = std::move(there);
    if (returns_gradient(shape, edges[e])) lanes_[{to, from}] = std::move(back);
  }
}

PipelineMessages::Lane& PipelineMessages::lane_of(const Instruction& i) {
  const bool forward = i.op == PipeOp::kSendActivation || i.op == PipeOp::kReceiveActivation;
  const auto ends = is_send(i.op) ? std::pair(i.stage, i.peer) : std::pair(i.peer, i.stage);
  const auto lane = lanes_.find(ends);
  if (lane == lanes_.end() || forward != (ends.first < ends.second)) {
    throw Error("pipeline: ", describe(i), ": nothing goes from stage ", ends.first, " to stage ",
                ends.second);
  }
  return lane->second;
}

PipelineMessages::Outcome PipelineMessages::send(int row, const Instruction& i, double now_s) {
  Lane& lane = lane_of(i);
  for (const Channel& c : lane.channels) {
    if (c.from != row || c.messages.size() < lane.buffer) continue;
    const size_t in_the_way = c.messages.size() - lane.buffer;
    if (c.received_s.size() <= in_the_way) return {.waits_for = c.to};
    now_s = std::max(now_s, c.received_s[in_the_way]);
  }
  const auto rows = static_cast<size_t>(first_row_.back());
  for (Channel& c : lane.channels) {
    if (c.from != row) continue;
    double& free_s = free_s_[static_cast<size_t>(c.from) * rows + static_cast<size_t>(c.to)];
    free_s = std::max(free_s, now_s) + c.transfer_s;
    c.messages.push_back({i, free_s + c.latency_s});
  }
  return {.end_s = now_s};
}

PipelineMessages::Outcome PipelineMessages::receive(int row, const Instruction& i, double now_s) {
  Lane& lane = lane_of(i);
  for (const Channel& c : lane.channels) {
    if (c.to != row) continue;
    const size_t next = c.received_s.size();
    if (c.messages.size() <= next) return {.waits_for = c.from};
    const Message& m = c.messages[next];
    if (m.sent.micro_batch != i.micro_batch) {
      throw Error("pipeline: stage ", i.stage, " waits for ", describe(i), ", which sends ",
                  describe(m.sent));
    }
    now_s = std::max(now_s, m.arrival_s);
  }
  for (Channel& c : lane.channels) {
    if (c.to == row) c.received_s.push_back(now_s);
  }
  return {.end_s = now_s};
}

void PipelineMessages::expect_all_received() const {
  for (const auto& [ends, lane] : lanes_) {
    for (const Channel& c : lane.channels) {
      if (c.messages.size() == c.received_s.size()) continue;
      throw Error("pipeline: stage ", ends.first, " sends ",
                  describe(c.messages[c.received_s.size()].sent), ", which never receives it");
    }
  }
}

}  // namespace ndtrain
