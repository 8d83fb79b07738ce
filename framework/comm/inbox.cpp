#include "framework/comm/inbox.h"

#include <algorithm>

namespace ndtrain {
namespace {

Status wrong_length(uint64_t tag, uint64_t bytes, uint64_t expected) {
  return {Code::kCorrupt, "message " + std::to_string(tag) + " has " + std::to_string(bytes) +
                              " bytes, not " + std::to_string(expected)};
}

}  // namespace

Status Inbox::part(const FrameHeader& header, std::span<const std::byte> body, Done& done) {
  if (header.generation < generation_ || (deaf_ && header.generation == generation_)) return {};
  if (header.offset == 0) {
    if (Status s = begin_message(header); !s.ok()) return s;
  }
  if (!message_ || message_->generation != header.generation || message_->tag != header.tag ||
      message_->total != header.total || message_->got != header.offset ||
      body.size() > header.total - header.offset || (body.empty() && header.total > 0)) {
    return {Code::kCorrupt,
            "a part of message " + std::to_string(header.tag) + " is not the one that was next"};
  }
  std::byte* const to =
      message_->in_place ? receives_[header.tag].front().into.data() : message_->bytes.data();
  std::ranges::copy(body, to + message_->got);
  message_->got += body.size();
  return message_->got == message_->total ? finish_message(done) : Status();
}

// One that has come in part was given up by the peer, which is in a later generation by now.
Status Inbox::begin_message(const FrameHeader& header) {
  message_ = Message{.generation = header.generation, .tag = header.tag, .total = header.total};
  if (awaited(*message_)) {
    const uint64_t expected = receives_[header.tag].front().into.size();
    if (header.total != expected) return wrong_length(header.tag, header.total, expected);
    message_->in_place = true;
    return {};
  }
  if (header.total > most_ahead_ - ahead_) {
    return {Code::kTooLarge, "message " + std::to_string(header.tag) + " of " +
                                 std::to_string(header.total) + " bytes, which nobody awaits"};
  }
  message_->bytes.resize(header.total);
  return {};
}

Status Inbox::finish_message(Done& done) {
  Message m = std::move(*message_);
  message_.reset();
  if (!awaited(m)) {
    ahead_ += m.total;
    arrived_[{m.generation, m.tag}].push_back(std::move(m.bytes));
    return {};
  }
  const auto it = receives_.find(m.tag);
  const Receive first = it->second.front();
  it->second.pop_front();
  if (it->second.empty()) receives_.erase(it);
  if (!m.in_place) return deliver(m.tag, first, m.bytes, done);
  done.push_back({first.request, {}});
  return {};
}

Status Inbox::receive(Request request, uint64_t tag, std::span<std::byte> into, Done& done) {
  const auto it = arrived_.find({generation_, tag});
  if (it != arrived_.end()) {
    const Bytes bytes = std::move(it->second.front());
    it->second.pop_front();
    if (it->second.empty()) arrived_.erase(it);
    ahead_ -= bytes.size();
    return deliver(tag, {request, into}, bytes, done);
  }
  if (!ended_.ok()) {
    done.push_back({request, ended_});
  } else {
    receives_[tag].push_back({request, into});
  }
  return {};
}

Status Inbox::deliver(uint64_t tag, const Receive& receive, const Bytes& bytes, Done& done) {
  if (bytes.size() != receive.into.size()) {
    receives_[tag].push_front(receive);  // it ends with the connection
    return wrong_length(tag, bytes.size(), receive.into.size());
  }
  std::ranges::copy(bytes, receive.into.begin());
  done.push_back({receive.request, {}});
  return {};
}

void Inbox::end(const Status& why, Done& done) {
  ended_ = why;
  for (const auto& [tag, receives] : receives_) {
    for (const Receive& r : receives) done.push_back({r.request, why});
  }
  receives_.clear();
  message_.reset();
}

void Inbox::cancel(Done& done) {
  for (const auto& [tag, receives] : receives_) {
    for (const Receive& r : receives) {
      done.push_back({r.request, Status(Code::kCancelled, "cancelled")});
    }
  }
  receives_.clear();
  deaf_ = true;
  if (message_ && message_->generation == generation_) message_.reset();
  for (auto it = arrived_.begin(); it != arrived_.end() && it->first.first <= generation_;) {
    for (const Bytes& b : it->second) ahead_ -= b.size();
    it = arrived_.erase(it);
  }
}

void Inbox::begin_generation(uint32_t generation) {
  generation_ = generation - 1;  // all before the new one is dropped
  Done nothing;
  cancel(nothing);
  if (message_ && message_->generation < generation) message_.reset();
  generation_ = generation;
  deaf_ = false;
}

std::optional<uint64_t> Inbox::unfinished() const {
  return message_ ? std::optional(message_->tag) : std::nullopt;
}

bool Inbox::awaited(const Message& m) const {
  return m.generation == generation_ && receives_.contains(m.tag);
}

}  // namespace ndtrain
