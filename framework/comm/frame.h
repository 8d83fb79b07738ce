// What two ranks say to each other over a stream: frames, each a header and a body, both with a
// checksum. A message travels as parts, one frame each, so that it can be given up in the middle.
//
//   header := magic u32, kind u32, generation u32, length u32, tag u64, total u64, offset u64,
//             checksum of the body u64, checksum of the header before it u64    little-endian
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "framework/core/net.h"

namespace ndtrain {

inline constexpr size_t kFrameHeaderBytes = 56;
inline constexpr size_t kMostFrameBytes = 256 << 10;  // of a body

struct FrameHeader {
  enum class Kind : uint32_t {
    kPart,   // bytes [offset, offset + length) of a message of `total` bytes
    kAlive,  // nothing to say
    kBye,    // nothing follows
    kHello,  // of a rendezvous, from who dials
    kAnswer  // of a rendezvous, to who dialled
  };
  Kind kind = Kind::kAlive;
  uint32_t generation = 0;
  uint32_t length = 0;  // of the body
  uint64_t tag = 0, total = 0, offset = 0;
  uint64_t checksum = 0;  // XXH3 of the body

  bool operator==(const FrameHeader&) const = default;
};

// Writes header and checksums in front of the body that `frame` has behind kFrameHeaderBytes.
void seal_frame(const FrameHeader& header, std::span<std::byte> frame);
// The same with a copy of `body`, whose length the header gets.
std::vector<std::byte> sealed_frame(FrameHeader header, std::span<const std::byte> body);
// kCorrupt: these bytes are no header.
Result<FrameHeader> open_header(std::span<const std::byte, kFrameHeaderBytes> bytes);
// kCorrupt: these bytes are no frame, from its first to its last.
Result<FrameHeader> open_whole_frame(std::span<const std::byte> frame);

// A frame with a copy of `body`, at most kMostFrameBytes long.
Status write_frame(Stream& stream, FrameHeader::Kind kind, std::span<const std::byte> body = {});

// Frames as they come. Borrows the stream.
class FrameReader {
 public:
  struct Frame {
    FrameHeader header;
    std::span<const std::byte> body;  // until the next call
  };

  // `silence`: how long nothing may come.
  FrameReader(Stream& stream, std::chrono::milliseconds silence)
      : stream_(stream), silence_(silence), buffer_(kFrameHeaderBytes + kMostFrameBytes) {}

  // kCancelled: silence. kIo: the stream broke or ended. kCorrupt: what came is no frame, with the
  // tag where the header still tells it.
  Result<Frame> next();

 private:
  Status fill(std::span<std::byte> to);

  Stream& stream_;
  const std::chrono::milliseconds silence_;
  std::vector<std::byte> buffer_;
};

}  // namespace ndtrain
