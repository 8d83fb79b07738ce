#include "framework/pipeline/run/stage_messages.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ndtrain {
namespace {

// The bytes of a value that a message has of it.
struct Slice {
  size_t begin, bytes;
  // A message is of floats, which are moved bit by bit: a value takes whole ones.
  size_t words() const { return (bytes + sizeof(float) - 1) / sizeof(float); }
};

Slice slice_of(const TensorType& type, const StageRanks::Peer& peer) {
  if (!peer.rows) return {0, type.bytes()};
  const size_t row = type.bytes() / static_cast<size_t>(type.shape[0]);
  return {static_cast<size_t>(peer.rows->begin) * row,
          static_cast<size_t>(peer.rows->size()) * row};
}

size_t words_of(const StageValues& values, const std::vector<ValueId>& which,
                const StageRanks::Peer& peer) {
  size_t words = 0;
  for (ValueId v : which) words += slice_of(values.type(v), peer).words();
  return words;
}

}  // namespace

Communicator::Op StageMessages::begin(const PipeShape& shape, const Lane& lane, int from, int to,
                                      std::span<float> memory) {
  const auto chunk = [&](int stage) { return stage / shape.ranks(); };
  CommOp op{.kind = CommOp::Kind::kMessage,
            .group = {std::min(from, to), std::max(from, to)},
            .name = "stage " + std::to_string(lane.from) + " to " + std::to_string(lane.to)};
  op.data = memory;
  op.root = from;
  op.lane = chunk(lane.from) * shape.chunks + chunk(lane.to);
  const Communicator::Op id = communicator_.enqueue(std::move(op));
  communicator_.release(id);
  return id;
}

void StageMessages::wait_for_oldest(std::deque<Sent>& sent) {
  communicator_.wait(sent.front().op);
  sent.pop_front();
}

void StageMessages::send(const PipeShape& shape, const Lane& lane, int64_t rows,
                         const std::vector<ValueId>& values, const StageValues& from) {
  const int rank = communicator_.rank();
  const auto peers = ranks_.receivers(rank, shape.rank_of(lane.to), rows);
  std::deque<Sent>& sent = sent_[{lane.from, lane.to}];
  while (!sent.empty() && communicator_.done(sent.front().op)) wait_for_oldest(sent);
  while (!sent.empty() && std::ssize(sent) >= lane.buffer * std::ssize(peers)) {
    wait_for_oldest(sent);
  }
  for (const StageRanks::Peer& peer : peers) {
    Sent& next = sent.emplace_back();
    next.memory.resize(words_of(from, values, peer));
    float* at = next.memory.data();
    for (ValueId v : values) {
      const Slice slice = slice_of(from.type(v), peer);
      device_.download(at, static_cast<const std::byte*>(from.read(v)) + slice.begin, slice.bytes);
      at += slice.words();
    }
    next.op = begin(shape, lane, rank, peer.rank, next.memory);
  }
}

void StageMessages::receive(const PipeShape& shape, const Lane& lane, int64_t rows,
                            const std::vector<ValueId>& values, StageValues& to) {
  const int rank = communicator_.rank();
  const auto peers = ranks_.senders(rank, shape.rank_of(lane.from), rows);
  size_t words = 0;
  for (const StageRanks::Peer& peer : peers) words += words_of(to, values, peer);
  received_.resize(words);
  std::span<float> left = received_;
  std::vector<Communicator::Op> ops;
  for (const StageRanks::Peer& peer : peers) {
    const size_t n = words_of(to, values, peer);
    ops.push_back(begin(shape, lane, peer.rank, rank, left.first(n)));
    left = left.subspan(n);
  }
  const float* at = received_.data();
  for (size_t k = 0; k < peers.size(); ++k) {
    communicator_.wait(ops[k]);
    for (ValueId v : values) {
      const Slice slice = slice_of(to.type(v), peers[k]);
      device_.upload(static_cast<std::byte*>(to.write(v)) + slice.begin, at, slice.bytes);
      at += slice.words();
    }
  }
}

void StageMessages::finish() {
  for (auto& [_, sent] : sent_) {
    while (!sent.empty()) wait_for_oldest(sent);
  }
}

}  // namespace ndtrain
