#include "framework/comm/exchange_piece.h"

#include <algorithm>

#include "framework/comm/wire_type.h"

namespace ndtrain {
namespace {

using Kind = CommOp::Kind;

}  // namespace

ExchangePiece::ExchangePiece(const Operation& of, size_t number, size_t values)
    : of_(of), number_(number), values_(values), arrived_(ranks()), unpacked_(ranks()) {}

std::span<float> ExchangePiece::piece_of(std::span<float> part) const {
  const std::span<float> from = part.subspan(std::min(part.size(), number_ * values_));
  return from.first(std::min(from.size(), values_));
}

std::vector<Subtree> ExchangePiece::nodes_of(size_t place) const {
  const std::vector<int>& begins = of_.op.leaf_begin;
  return subtrees_of(begins[place], begins[place + 1], begins.back());
}

void ExchangePiece::begin() {
  switch (of_.op.kind) {
    case Kind::kReduceScatter:
    case Kind::kAllReduce:
    case Kind::kReduce:
      return enter(Phase::kScatter);
    case Kind::kAllGather:
    case Kind::kBroadcast:
      return enter(Phase::kGather);
    case Kind::kAllToAll:
      return enter(Phase::kAllToAll);
    case Kind::kBarrier:
      return enter(Phase::kBarrier);
  }
}

void ExchangePiece::enter(Phase phase) {
  phase_ = phase;
  if (phase == Phase::kScatter) begin_scatter();
  if (phase == Phase::kGather) begin_gather();
  if (phase == Phase::kAllToAll) begin_all_to_all();
  if (phase == Phase::kBarrier) begin_barrier();
  // A group of one, or nothing to send.
  if (phase != Phase::kFinished && under_way_.empty()) phase_over();
}

bool ExchangePiece::ended(Transport::Request request) {
  if (under_way_.erase(request) == 0) return false;
  if (under_way_.empty()) phase_over();
  return true;
}

// What was sent from `data` has been taken by now, so that the next phase may write there.
void ExchangePiece::phase_over() {
  if (phase_ == Phase::kScatter) add_up();
  if (phase_ == Phase::kGather || phase_ == Phase::kAllToAll) take_arrived();
  packed_.clear();
  for (Buffer& b : arrived_) b.reset();
  const bool gather = phase_ == Phase::kScatter && of_.op.kind == Kind::kAllReduce;
  enter(gather ? Phase::kGather : Phase::kFinished);
}

void ExchangePiece::begin_scatter() {
  const bool adds = !nodes_of(of_.place).empty();
  for (size_t p = 0; p < ranks(); ++p) {
    if (p == of_.place) continue;
    const std::span<const float> theirs = part(p);
    if (adds && !theirs.empty()) {
      std::vector<std::span<const float>> subtrees = {theirs};
      for (const float* more : of_.op.more_subtrees) {
        subtrees.emplace_back(more + (theirs.data() - of_.op.data.data()), theirs.size());
      }
      send(p, on_the_wire(subtrees));
    }
    const size_t values = nodes_of(p).size() * part(of_.place).size();
    if (values > 0) receive(p, room_for(p, values));
  }
}

void ExchangePiece::add_up() {
  const std::span<float> sum = part(of_.place);
  if (sum.empty()) return;
  std::vector<Addend> addends;
  for (size_t p = 0; p < ranks(); ++p) {
    const std::vector<Subtree> nodes = nodes_of(p);
    for (size_t i = 0; i < nodes.size(); ++i) {
      Addend a{.node = nodes[i], .values = sum.data()};
      if (p != of_.place) {
        a.type = of_.op.wire;
        a.values = arrived_[p].get() + i * sum.size() * size_of(of_.op.wire);
      } else if (i > 0) {
        a.values = of_.op.more_subtrees[i - 1] + (sum.data() - of_.op.data.data());
      }
      addends.push_back(a);
    }
  }
  add_in_tree_order(addends, of_.op.leaf_begin.back(), sum);
}

void ExchangePiece::begin_gather() {
  const std::span<float> own = part(of_.place);
  round_to_wire(own, of_.op.wire);
  const std::span<const float> values[] = {own};
  const std::span<const std::byte> bytes = on_the_wire(values);
  for (size_t p = 0; p < ranks(); ++p) {
    if (p == of_.place) continue;
    if (!own.empty()) send(p, bytes);
    receive_floats(p, part(p));
  }
}

void ExchangePiece::begin_all_to_all() {
  for (size_t p = 0; p < ranks(); ++p) {
    const std::span<float> sent = part(p), received = piece_of(received_part_of(of_.op, p));
    if (p == of_.place) {
      std::ranges::copy(sent, received.begin());
      round_to_wire(received, of_.op.wire);
      continue;
    }
    const std::span<const float> values[] = {sent};
    if (!sent.empty()) send(p, on_the_wire(values));
    receive_floats(p, received);
  }
}

void ExchangePiece::begin_barrier() {
  for (size_t p = 0; p < ranks(); ++p) {
    if (p == of_.place) continue;
    send(p, {});
    receive(p, {});
  }
}

void ExchangePiece::take_arrived() {
  for (size_t p = 0; p < ranks(); ++p) {
    if (arrived_[p]) from_wire(arrived_[p].get(), of_.op.wire, 0, unpacked_[p]);
  }
}

uint64_t ExchangePiece::tag_with(size_t place) const {
  return of_.tags[place] + (phase_ == Phase::kGather) + (uint64_t{number_} << kTagBits);
}

void ExchangePiece::send(size_t to, std::span<const std::byte> bytes) {
  const int rank = of_.op.group[to];
  under_way_[of_.transport.send(rank, tag_with(to), bytes)] = rank;
}

void ExchangePiece::receive(size_t from, std::span<std::byte> into) {
  const int rank = of_.op.group[from];
  under_way_[of_.transport.receive(rank, tag_with(from), into)] = rank;
}

void ExchangePiece::receive_floats(size_t from, std::span<float> into) {
  if (into.empty()) return;
  if (of_.op.wire == DType::kF32) return receive(from, std::as_writable_bytes(into));
  unpacked_[from] = into;
  receive(from, room_for(from, into.size()));
}

// One behind the other, as they travel.
std::span<const std::byte> ExchangePiece::on_the_wire(
    std::span<const std::span<const float>> subtrees) {
  if (subtrees.size() == 1 && of_.op.wire == DType::kF32) return std::as_bytes(subtrees[0]);
  const size_t bytes = subtrees[0].size() * size_of(of_.op.wire);
  packed_.push_back(of_.buffers.take(subtrees.size() * bytes));
  for (size_t i = 0; i < subtrees.size(); ++i) {
    to_wire(subtrees[i], of_.op.wire, packed_.back().get() + i * bytes);
  }
  return {packed_.back().get(), subtrees.size() * bytes};
}

std::span<std::byte> ExchangePiece::room_for(size_t from, size_t values) {
  const size_t bytes = values * size_of(of_.op.wire);
  arrived_[from] = of_.buffers.take(bytes);
  return {arrived_[from].get(), bytes};
}

}  // namespace ndtrain
