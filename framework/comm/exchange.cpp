#include "framework/comm/exchange.h"

#include <algorithm>
#include <utility>

#include "framework/comm/library_calls.h"
#include "framework/comm/wire_type.h"

namespace ndtrain {
namespace {

using Kind = CommOp::Kind;

template <typename T>
std::span<T> slice(std::span<T> of, const std::vector<int64_t>& begins, size_t place) {
  return of.subspan(static_cast<size_t>(begins[place]),
                    static_cast<size_t>(begins[place + 1] - begins[place]));
}

}  // namespace

Exchange::Exchange(CommOp op, std::vector<uint64_t> tags, Transport& transport)
    : op_(std::move(op)),
      tags_(std::move(tags)),
      transport_(transport),
      place_(
          static_cast<size_t>(std::ranges::find(op_.group, transport.rank()) - op_.group.begin())),
      arrived_(ranks()),
      unpacked_(ranks()) {}

std::span<float> Exchange::part(size_t place) const {
  return slice(op_.data, op_.part_begin, place);
}

std::span<float> Exchange::received_part(size_t place) const {
  return slice(op_.received, op_.received_begin, place);
}

std::vector<Subtree> Exchange::nodes_of(size_t place) const {
  return subtrees_of(op_.leaf_begin[place], op_.leaf_begin[place + 1], op_.leaf_begin.back());
}

void Exchange::begin() {
  if (op_.native && (ranks() > 1 || on_device())) return enter(Phase::kNative);
  switch (op_.kind) {
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

void Exchange::enter(Phase phase) {
  phase_ = phase;
  if (phase == Phase::kScatter) begin_scatter();
  if (phase == Phase::kGather) begin_gather();
  if (phase == Phase::kAllToAll) begin_all_to_all();
  if (phase == Phase::kBarrier) begin_barrier();
  if (phase == Phase::kNative) begin_native();
  // A group of one, or nothing to send.
  if (phase != Phase::kFinished && under_way_.empty()) phase_over();
}

void Exchange::ended(Transport::Request request) {
  under_way_.erase(request);
  if (under_way_.empty()) phase_over();
}

// What was sent from `data` has been taken by now, so that the next phase may write there.
void Exchange::phase_over() {
  if (phase_ == Phase::kScatter) add_up();
  if (phase_ == Phase::kGather || phase_ == Phase::kAllToAll) take_arrived();
  if (phase_ == Phase::kNative) take_native();
  packed_.clear();
  for (Bytes& b : arrived_) b.reset();
  const bool gather = phase_ == Phase::kScatter && op_.kind == Kind::kAllReduce;
  enter(gather ? Phase::kGather : Phase::kFinished);
}

std::set<int> Exchange::peers_of(Transport::Request request) const {
  const auto it = under_way_.find(request);
  if (it == under_way_.end()) return {};
  return {it->second.begin(), it->second.end()};
}

std::set<int> Exchange::lacking() const {
  std::set<int> all;
  for (const auto& [request, ranks] : under_way_) all.insert(ranks.begin(), ranks.end());
  return all;
}

void Exchange::begin_scatter() {
  const bool adds = !nodes_of(place_).empty();
  for (size_t p = 0; p < ranks(); ++p) {
    if (p == place_) continue;
    const auto begin = static_cast<size_t>(op_.part_begin[p]);
    const size_t length = part(p).size();
    if (adds && length > 0) {
      std::vector<std::span<const float>> pieces = {part(p)};
      for (const float* more : op_.more_subtrees) pieces.push_back({more + begin, length});
      send(p, on_the_wire(pieces));
    }
    const size_t values = nodes_of(p).size() * part(place_).size();
    if (values > 0) receive(p, room_for(p, values));
  }
}

void Exchange::add_up() {
  const std::span<float> sum = part(place_);
  if (sum.empty()) return;
  std::vector<Addend> addends;
  for (size_t p = 0; p < ranks(); ++p) {
    const std::vector<Subtree> nodes = nodes_of(p);
    for (size_t i = 0; i < nodes.size(); ++i) {
      Addend a{.node = nodes[i], .values = sum.data()};
      if (p != place_) {
        a.type = op_.wire;
        a.values = arrived_[p].get() + i * sum.size() * size_of(op_.wire);
      } else if (i > 0) {
        a.values = op_.more_subtrees[i - 1] + op_.part_begin[place_];
      }
      addends.push_back(a);
    }
  }
  add_in_tree_order(addends, op_.leaf_begin.back(), sum);
}

void Exchange::begin_gather() {
  const std::span<float> own = part(place_);
  round_to_wire(own, op_.wire);
  const std::span<const float> pieces[] = {own};
  const std::span<const std::byte> bytes = on_the_wire(pieces);
  for (size_t p = 0; p < ranks(); ++p) {
    if (p == place_) continue;
    if (!own.empty()) send(p, bytes);
    receive_floats(p, part(p));
  }
}

void Exchange::begin_all_to_all() {
  for (size_t p = 0; p < ranks(); ++p) {
    if (p == place_) {
      std::ranges::copy(part(p), received_part(p).begin());
      round_to_wire(received_part(p), op_.wire);
      continue;
    }
    const std::span<const float> pieces[] = {part(p)};
    if (!part(p).empty()) send(p, on_the_wire(pieces));
    receive_floats(p, received_part(p));
  }
}

void Exchange::begin_barrier() {
  for (size_t p = 0; p < ranks(); ++p) {
    if (p == place_) continue;
    send(p, {});
    receive(p, {});
  }
}

// The library's parts are equally long: where these are not, they are laid out with room between.
void Exchange::begin_native() {
  if (on_device()) {
    const std::vector<LibraryCall> calls = calls_on_device(op_, place_);
    return calls.empty() ? void() : begin_calls(calls);
  }
  size_t most = 0;
  for (size_t p = 0; p < ranks(); ++p) most = std::max(most, part(p).size());
  const bool equal = most * ranks() == op_.data.size();
  const auto at = [&](size_t place) { return native_in_.data() + place * most; };
  LibraryCollective what = LibraryCollective::kAllReduce;
  std::span<float> in, out;
  if (op_.kind == Kind::kAllGather) {
    what = LibraryCollective::kAllGather;
    if (!equal) {
      native_in_.resize(most * ranks());
      std::ranges::copy(part(place_), at(place_));
    }
    in = equal ? part(place_) : std::span(at(place_), most);
    out = equal ? op_.data : std::span(native_in_);
  } else if (op_.kind == Kind::kReduceScatter) {
    what = LibraryCollective::kReduceScatter;
    in = native_summands();
    if (!equal) {
      const std::vector<float> summands(in.begin(), in.end());
      native_in_.assign(most * ranks(), 0.0F);
      for (size_t p = 0; p < ranks(); ++p) {
        std::ranges::copy(slice(std::span<const float>(summands), op_.part_begin, p), at(p));
      }
      in = native_in_;
    }
    native_out_.resize(most);
    out = native_out_;
  } else {
    in = out = native_summands();
  }
  if (std::max(in.size(), out.size()) == 0) return;
  begin_calls(std::vector<LibraryCall>{{what, in, out}});
}

void Exchange::begin_calls(std::span<const LibraryCall> calls) {
  RankGroup others = op_.group;
  if (others.size() > 1) std::erase(others, op_.group[place_]);
  under_way_[transport_.collect(calls, op_.after)] = std::move(others);
}

// What this rank adds: `data` where it may change, or a copy.
std::span<float> Exchange::native_summands() {
  const bool adds = !nodes_of(place_).empty();
  const bool changes = !adds || !op_.more_subtrees.empty();
  const bool all_change =
      op_.kind == Kind::kAllReduce || (op_.kind == Kind::kReduce && op_.group[place_] == op_.root);
  if (!all_change && (changes || op_.kind == Kind::kReduce)) {
    native_in_.assign(op_.data.begin(), op_.data.end());
  }
  const std::span<float> sums = native_in_.empty() ? op_.data : std::span(native_in_);
  if (!adds) std::ranges::fill(sums, 0.0F);
  for (const float* more : op_.more_subtrees) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
  }
  return sums;
}

void Exchange::take_native() {
  if (on_device()) return;
  if (op_.kind == Kind::kReduceScatter) {
    std::copy_n(native_out_.begin(), part(place_).size(), part(place_).begin());
  } else if (op_.kind == Kind::kAllGather && !native_in_.empty()) {
    const size_t most = native_in_.size() / ranks();
    for (size_t p = 0; p < ranks(); ++p) {
      if (p == place_) continue;
      std::copy_n(native_in_.data() + p * most, part(p).size(), part(p).begin());
    }
  }
  native_in_ = {};
  native_out_ = {};
}

void Exchange::take_arrived() {
  for (size_t p = 0; p < ranks(); ++p) {
    if (arrived_[p]) from_wire(arrived_[p].get(), op_.wire, 0, unpacked_[p]);
  }
}

void Exchange::send(size_t to, std::span<const std::byte> bytes) {
  const uint64_t tag = tags_[to] + (phase_ == Phase::kGather);
  under_way_[transport_.send(op_.group[to], tag, bytes)] = {op_.group[to]};
}

void Exchange::receive(size_t from, std::span<std::byte> into) {
  const uint64_t tag = tags_[from] + (phase_ == Phase::kGather);
  under_way_[transport_.receive(op_.group[from], tag, into)] = {op_.group[from]};
}

void Exchange::receive_floats(size_t from, std::span<float> into) {
  if (into.empty()) return;
  if (op_.wire == DType::kF32) return receive(from, std::as_writable_bytes(into));
  unpacked_[from] = into;
  receive(from, room_for(from, into.size()));
}

// The pieces one behind the other, as they travel.
std::span<const std::byte> Exchange::on_the_wire(std::span<const std::span<const float>> pieces) {
  if (pieces.size() == 1 && op_.wire == DType::kF32) return std::as_bytes(pieces[0]);
  const size_t piece_bytes = pieces[0].size() * size_of(op_.wire);
  packed_.push_back(std::make_unique_for_overwrite<std::byte[]>(pieces.size() * piece_bytes));
  for (size_t i = 0; i < pieces.size(); ++i) {
    to_wire(pieces[i], op_.wire, packed_.back().get() + i * piece_bytes);
  }
  return {packed_.back().get(), pieces.size() * piece_bytes};
}

std::span<std::byte> Exchange::room_for(size_t from, size_t values) {
  const size_t bytes = values * size_of(op_.wire);
  arrived_[from] = std::make_unique_for_overwrite<std::byte[]>(bytes);
  return {arrived_[from].get(), bytes};
}

}  // namespace ndtrain
