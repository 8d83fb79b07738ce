#include "framework/pipeline/run/stage_messages.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ndtrain {
namespace {

// A message is of floats, which are moved bit by bit: a value takes whole ones.
size_t words_of(const TensorType& type) {
  return (type.bytes() + sizeof(float) - 1) / sizeof(float);
}

size_t words_of(const StageValues& values, const std::vector<ValueId>& which) {
  size_t words = 0;
  for (ValueId v : which) words += words_of(values.type(v));
  return words;
}

}  // namespace

Communicator::Op StageMessages::begin(const PipeShape& shape, const Lane& lane,
                                      std::span<float> memory) {
  const int from = shape.rank_of(lane.from), to = shape.rank_of(lane.to);
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

void StageMessages::send(const PipeShape& shape, const Lane& lane,
                         const std::vector<ValueId>& values, const StageValues& from) {
  std::deque<Sent>& sent = sent_[{lane.from, lane.to}];
  while (!sent.empty() && communicator_.done(sent.front().op)) wait_for_oldest(sent);
  while (std::ssize(sent) >= lane.buffer) wait_for_oldest(sent);
  Sent& next = sent.emplace_back();
  next.memory.resize(words_of(from, values));
  float* at = next.memory.data();
  for (ValueId v : values) {
    device_.download(at, from.read(v), from.type(v).bytes());
    at += words_of(from.type(v));
  }
  next.op = begin(shape, lane, next.memory);
}

void StageMessages::receive(const PipeShape& shape, const Lane& lane,
                            const std::vector<ValueId>& values, StageValues& to) {
  received_.resize(words_of(to, values));
  communicator_.wait(begin(shape, lane, received_));
  const float* at = received_.data();
  for (ValueId v : values) {
    device_.upload(to.write(v), at, to.type(v).bytes());
    at += words_of(to.type(v));
  }
}

void StageMessages::finish() {
  for (auto& [_, sent] : sent_) {
    while (!sent.empty()) wait_for_oldest(sent);
  }
}

}  // namespace ndtrain
