// What one peer sends, and what is expected of it: parts become messages, and messages meet the
// receives of their tag.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/comm/frame.h"
#include "framework/comm/transport.h"

namespace ndtrain {

// Untrusted parts. A Status that is not ok ends the connection. Adds receives that are done to
// `done`. One thread at a time.
class Inbox {
 public:
  using Request = Transport::Request;
  using Done = std::vector<Transport::Done>;

  // `most_ahead`: bytes of messages that may come before their receives.
  explicit Inbox(uint64_t most_ahead) : most_ahead_(most_ahead) {}

  Status part(const FrameHeader& header, std::span<const std::byte> body, Done& done);
  Status receive(Request request, uint64_t tag, std::span<std::byte> into, Done& done);
  // Nothing more comes: receives end with `why`, now and from now on, but for what is here already.
  void end(const Status& why, Done& done);
  // All receives end with kCancelled; messages of this generation are dropped, now and from now on.
  void cancel(Done& done);
  void begin_generation(uint32_t generation);  // after cancel()

  // The message that has come in part.
  std::optional<uint64_t> unfinished() const;

 private:
  using Bytes = std::vector<std::byte>;
  struct Receive {
    Request request;
    std::span<std::byte> into;
  };
  struct Message {
    uint32_t generation;
    uint64_t tag, total, got;
    bool in_place;  // in what the first receive of the tag has given, else in `bytes`
    Bytes bytes;
  };

  Status begin_message(const FrameHeader& header);
  Status finish_message(Done& done);
  Status deliver(uint64_t tag, const Receive& receive, const Bytes& bytes, Done& done);
  bool awaited(const Message& m) const;

  const uint64_t most_ahead_;
  uint32_t generation_ = 0;
  bool deaf_ = false;  // for what is left of this generation
  Status ended_;
  std::optional<Message> message_;                                      // that comes just now
  std::map<std::pair<uint32_t, uint64_t>, std::deque<Bytes>> arrived_;  // generation, tag
  uint64_t ahead_ = 0;                                                  // bytes in arrived_
  std::map<uint64_t, std::deque<Receive>> receives_;  // of tags that have nothing in arrived_
};

}  // namespace ndtrain
