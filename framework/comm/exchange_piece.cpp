#include "framework/comm/exchange_piece.h"

#include <algorithm>

#include "framework/comm/wire_type.h"

namespace ndtrain {
namespace {

using Kind = CommOp::Kind;

}  // namespace

ExchangePiece::ExchangePiece(const Operation& of, size_t number, size_t values)
    : of_(of),
      number_(number),
      values_(values),
      collected_(ranks()),
      gathered_(ranks()),
      unpacked_(ranks()) {}

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
      return begin_sum();
    case Kind::kAllGather:
    case Kind::kBroadcast:
    case Kind::kMessage:
      spread();
      return gather();
    case Kind::kAllToAll:
      return swap();
    case Kind::kBarrier:
      return meet();
  }
}

void ExchangePiece::begin_sum() {
  const bool adds = !nodes_of(of_.place).empty();
  for (size_t p = 0; p < ranks(); ++p) {
    if (p == of_.place) continue;
    const std::span<const float> theirs = part(p);
    if (adds && !theirs.empty()) {
      std::vector<std::span<const float>> subtrees = {theirs};
      for (const float* more : of_.op.more_subtrees) {
        subtrees.emplace_back(more + (theirs.data() - of_.op.data.data()), theirs.size());
      }
      send(p, Role::kGives, on_the_wire(subtrees, given_));
    }
    const size_t bytes = nodes_of(p).size() * part(of_.place).size() * size_of(of_.op.wire);
    if (bytes == 0) continue;
    collected_[p] = of_.buffers.take(bytes);
    receive(p, Role::kCollects, {collected_[p].get(), bytes});
  }
  // A group of one, or nothing to send.
  if (!waits_for(Role::kCollects)) over(Role::kCollects);
  if (!waits_for(Role::kGives)) over(Role::kGives);
}

bool ExchangePiece::ended(Transport::Request request) {
  const auto it = under_way_.find(request);
  if (it == under_way_.end()) return false;
  const Role role = it->second.role;
  under_way_.erase(it);
  if (!waits_for(role)) over(role);
  return true;
}

// No message of the role is under way any more.
void ExchangePiece::over(Role role) {
  const bool all = of_.op.kind == Kind::kAllReduce;
  if (role == Role::kCollects) {
    add_up();
    for (Buffer& b : collected_) b.reset();
    if (all) spread();
  } else if (role == Role::kGives) {
    given_.clear();
    if (all) gather();  // what was sent from there has been taken
  } else if (role == Role::kGathers) {
    take_gathered();
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
        a.values = collected_[p].get() + i * sum.size() * size_of(of_.op.wire);
      } else if (i > 0) {
        a.values = of_.op.more_subtrees[i - 1] + (sum.data() - of_.op.data.data());
      }
      addends.push_back(a);
    }
  }
  add_in_tree_order(addends, of_.op.leaf_begin.back(), sum);
}

void ExchangePiece::spread() {
  const std::span<float> own = part(of_.place);
  if (own.empty()) return;
  round_to_wire(own, of_.op.wire);
  const std::span<const float> values[] = {own};
  const std::span<const std::byte> bytes = on_the_wire(values, spread_);
  for (size_t p = 0; p < ranks(); ++p) {
    if (p != of_.place) send(p, Role::kSpreads, bytes);
  }
}

void ExchangePiece::gather() {
  for (size_t p = 0; p < ranks(); ++p) {
    if (p != of_.place) gather_floats(p, part(p));
  }
}

void ExchangePiece::swap() {
  for (size_t p = 0; p < ranks(); ++p) {
    const std::span<float> sent = part(p), received = piece_of(received_part_of(of_.op, p));
    if (p == of_.place) {
      std::ranges::copy(sent, received.begin());
      round_to_wire(received, of_.op.wire);
      continue;
    }
    const std::span<const float> values[] = {sent};
    if (!sent.empty()) send(p, Role::kSpreads, on_the_wire(values, spread_));
    gather_floats(p, received);
  }
}

void ExchangePiece::meet() {
  for (size_t p = 0; p < ranks(); ++p) {
    if (p == of_.place) continue;
    send(p, Role::kSpreads, {});
    receive(p, Role::kGathers, {});
  }
}

void ExchangePiece::take_gathered() {
  for (size_t p = 0; p < ranks(); ++p) {
    if (gathered_[p]) from_wire(gathered_[p].get(), of_.op.wire, 0, unpacked_[p]);
  }
}

bool ExchangePiece::waits_for(Role role) const {
  return std::ranges::any_of(under_way_, [&](const auto& m) { return m.second.role == role; });
}

std::optional<int> ExchangePiece::peer_of(Transport::Request request) const {
  const auto it = under_way_.find(request);
  return it == under_way_.end() ? std::nullopt : std::optional(it->second.rank);
}

void ExchangePiece::add_lacking(std::set<int>& ranks) const {
  for (const auto& [request, message] : under_way_) ranks.insert(message.rank);
}

uint64_t ExchangePiece::tag_of(size_t place, Role role) const {
  const bool second = role == Role::kSpreads || role == Role::kGathers;
  return of_.tags[place] + (second ? 1 : 0) + (uint64_t{number_} << kTagBits);
}

void ExchangePiece::send(size_t to, Role role, std::span<const std::byte> bytes) {
  const int rank = of_.op.group[to];
  const uint64_t tag = tag_of(to, role);
  Transport& transport = of_.transport;
  const Transport::Request request =
      of_.op.bulk ? transport.send_bulk(rank, tag, bytes) : transport.send(rank, tag, bytes);
  under_way_[request] = {rank, role};
}

void ExchangePiece::receive(size_t from, Role role, std::span<std::byte> into) {
  const int rank = of_.op.group[from];
  under_way_[of_.transport.receive(rank, tag_of(from, role), into)] = {rank, role};
}

void ExchangePiece::gather_floats(size_t from, std::span<float> into) {
  if (into.empty()) return;
  if (of_.op.wire == DType::kF32) {
    return receive(from, Role::kGathers, std::as_writable_bytes(into));
  }
  const size_t bytes = into.size() * size_of(of_.op.wire);
  unpacked_[from] = into;
  gathered_[from] = of_.buffers.take(bytes);
  receive(from, Role::kGathers, {gathered_[from].get(), bytes});
}

// One behind the other, as they travel.
std::span<const std::byte> ExchangePiece::on_the_wire(
    std::span<const std::span<const float>> subtrees, std::vector<Buffer>& packed) {
  if (subtrees.size() == 1 && of_.op.wire == DType::kF32) return std::as_bytes(subtrees[0]);
  const size_t bytes = subtrees[0].size() * size_of(of_.op.wire);
  packed.push_back(of_.buffers.take(subtrees.size() * bytes));
  for (size_t i = 0; i < subtrees.size(); ++i) {
    to_wire(subtrees[i], of_.op.wire, packed.back().get() + i * bytes);
  }
  return {packed.back().get(), subtrees.size() * bytes};
}

}  // namespace ndtrain
