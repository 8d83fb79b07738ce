#include "framework/comm/announced.h"

namespace ndtrain {

std::optional<Announced::Meeting> Announced::add(Message message) {
  if (message.generation < wanted_) {
    drop(std::move(message));
    return std::nullopt;
  }
  const auto it = message.generation == now_ ? receives_.find(message.tag) : receives_.end();
  if (it == receives_.end()) {
    bytes_ += message.bytes.size();
    messages_[{message.generation, message.tag}].push_back(std::move(message));
    return std::nullopt;
  }
  const Receive receive = it->second.front();
  it->second.pop_front();
  if (it->second.empty()) receives_.erase(it);
  return Meeting{std::move(message), receive};
}

std::optional<Announced::Meeting> Announced::receive(uint64_t tag, const Receive& receive) {
  const auto it = messages_.find({now_, tag});
  if (it == messages_.end()) {
    receives_[tag].push_back(receive);
    return std::nullopt;
  }
  Meeting meeting{std::move(it->second.front()), receive};
  it->second.pop_front();
  if (it->second.empty()) messages_.erase(it);
  bytes_ -= meeting.message.bytes.size();
  return meeting;
}

std::optional<Announced::Message> Announced::next_unwanted() {
  if (unwanted_.empty()) return std::nullopt;
  Message message = std::move(unwanted_.front());
  unwanted_.pop_front();
  return message;
}

std::vector<Transport::Request> Announced::take_receives() {
  std::vector<Transport::Request> requests;
  for (const auto& [tag, receives] : receives_) {
    for (const Receive& r : receives) requests.push_back(r.request);
  }
  receives_.clear();
  return requests;
}

void Announced::refuse() { drop_before(now_ + 1); }

void Announced::begin_generation(uint32_t generation) {
  drop_before(generation);
  now_ = generation;
}

void Announced::drop_before(uint32_t generation) {
  wanted_ = generation;
  while (!messages_.empty() && messages_.begin()->first.first < generation) {
    for (Message& m : messages_.begin()->second) {
      bytes_ -= m.bytes.size();
      drop(std::move(m));
    }
    messages_.erase(messages_.begin());
  }
}

void Announced::drop(Message message) {
  if (message.payload) unwanted_.push_back(std::move(message));
}

Result<Announced::Message> announced_by(const FrameHeader& header,
                                        std::span<const std::byte> body) {
  const bool is_long = header.total > kMostInFrame;
  if (header.offset != 0 || body.size() != (is_long ? 0 : header.total)) {
    return Status(Code::kCorrupt, "message " + std::to_string(header.tag) + " of " +
                                      std::to_string(header.total) + " bytes is announced with " +
                                      std::to_string(body.size()));
  }
  Announced::Message message{header.generation, header.tag, header.total};
  message.bytes.assign(body.begin(), body.end());
  return message;
}

}  // namespace ndtrain
