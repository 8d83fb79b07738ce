// What one peer has announced, and what is expected of it: messages meet the receives of their tag.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "framework/comm/frame.h"
#include "framework/comm/transport.h"

namespace ndtrain {

// Bytes of a message that the frame which announces it takes along; those of a longer one come by
// themselves.
inline constexpr size_t kMostInFrame = 4 << 10;

// As Inbox (inbox.h), where a long message comes only when it is asked for. One thread.
class Announced {
 public:
  struct Message {
    uint32_t generation = 0;
    uint64_t tag = 0, total = 0;
    std::optional<int32_t> payload;  // the tag that it comes under, where it is not in `bytes`
    std::vector<std::byte> bytes = {};
  };
  struct Receive {
    Transport::Request request = 0;
    std::span<std::byte> into;
  };
  struct Meeting {
    Message message;
    Receive receive;
  };

  // At most one meeting. Of what nobody wants any more a long message still has to be taken:
  // next_unwanted().
  std::optional<Meeting> add(Message message);
  std::optional<Meeting> receive(uint64_t tag, const Receive& receive);
  std::optional<Message> next_unwanted();

  // What was expected; it is not any more.
  std::vector<Transport::Request> take_receives();
  // Messages of this generation are unwanted, now and from now on.
  void refuse();
  void begin_generation(uint32_t generation);

  uint64_t bytes() const { return bytes_; }  // of short messages that wait

 private:
  void drop(Message message);
  void drop_before(uint32_t generation);

  uint32_t now_ = 0, wanted_ = 0;  // the generation; from which on messages are wanted
  std::map<std::pair<uint32_t, uint64_t>, std::deque<Message>> messages_;  // generation, tag
  std::map<uint64_t, std::deque<Receive>> receives_;  // of tags that have no message
  std::deque<Message> unwanted_;
  uint64_t bytes_ = 0;
};

// Untrusted. kCorrupt: a frame announces no such message. The tag of the payload is left out.
Result<Announced::Message> announced_by(const FrameHeader& header, std::span<const std::byte> body);

}  // namespace ndtrain
