#include "framework/comm/frame.h"

#include <algorithm>
#include <string>

#include "framework/core/coding.h"
#include "framework/core/hash.h"

namespace ndtrain {
namespace {

constexpr uint32_t kMagic = 0x3146434e;  // "NCF1"
constexpr size_t kSealed = kFrameHeaderBytes - 8;

Status damaged(const FrameHeader& h) {
  return {Code::kCorrupt, "a part of message " + std::to_string(h.tag) + " came damaged"};
}

}  // namespace

void seal_frame(const FrameHeader& header, std::span<std::byte> frame) {
  if (frame.size() != kFrameHeaderBytes + header.length) {
    throw Error("seal_frame: ", frame.size(), " bytes for a body of ", header.length);
  }
  std::byte* const to = frame.data();
  store_le(to, kMagic);
  store_le(to + 4, static_cast<uint32_t>(header.kind));
  store_le(to + 8, header.generation);
  store_le(to + 12, header.length);
  store_le(to + 16, header.tag);
  store_le(to + 24, header.total);
  store_le(to + 32, header.offset);
  store_le(to + 40, xxh3(to + kFrameHeaderBytes, header.length));
  store_le(to + kSealed, xxh3(to, kSealed));
}

std::vector<std::byte> sealed_frame(FrameHeader header, std::span<const std::byte> body) {
  header.length = static_cast<uint32_t>(body.size());
  std::vector<std::byte> frame(kFrameHeaderBytes + body.size());
  std::ranges::copy(body, frame.begin() + kFrameHeaderBytes);
  seal_frame(header, frame);
  return frame;
}

Result<FrameHeader> open_header(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  const std::byte* const from = bytes.data();
  FrameHeader h{.generation = load_le<uint32_t>(from + 8),
                .length = load_le<uint32_t>(from + 12),
                .tag = load_le<uint64_t>(from + 16),
                .total = load_le<uint64_t>(from + 24),
                .offset = load_le<uint64_t>(from + 32),
                .checksum = load_le<uint64_t>(from + 40)};
  const auto kind = load_le<uint32_t>(from + 4);
  if (load_le<uint32_t>(from) != kMagic ||
      load_le<uint64_t>(from + kSealed) != xxh3(from, kSealed) ||
      kind > static_cast<uint32_t>(FrameHeader::Kind::kAnswer) || h.length > kMostFrameBytes) {
    return Status(Code::kCorrupt, "what came is no frame of ours");
  }
  h.kind = static_cast<FrameHeader::Kind>(kind);
  return h;
}

Result<FrameHeader> open_whole_frame(std::span<const std::byte> frame) {
  if (frame.size() < kFrameHeaderBytes)
    return Status(Code::kCorrupt, "what came is no frame of ours");
  const Result<FrameHeader> header = open_header(frame.first<kFrameHeaderBytes>());
  if (!header.ok()) return header;
  const std::span<const std::byte> body = frame.subspan(kFrameHeaderBytes);
  if (body.size() != header->length || xxh3(body.data(), body.size()) != header->checksum) {
    return damaged(*header);
  }
  return header;
}

Status write_frame(Stream& stream, FrameHeader::Kind kind, std::span<const std::byte> body) {
  if (body.size() > kMostFrameBytes) {
    return {Code::kTooLarge, "a frame of " + std::to_string(body.size()) + " bytes"};
  }
  return stream.write(sealed_frame({.kind = kind}, body));
}

Result<FrameReader::Frame> FrameReader::next() {
  const std::span<std::byte> all(buffer_);
  if (Status s = fill(all.first(kFrameHeaderBytes)); !s.ok()) return s;
  const Result<FrameHeader> header = open_header(all.first<kFrameHeaderBytes>());
  if (!header.ok()) return header.status();
  const std::span<std::byte> body = all.subspan(kFrameHeaderBytes, header->length);
  if (Status s = fill(body); !s.ok()) return s;
  if (xxh3(body.data(), body.size()) != header->checksum) return damaged(*header);
  return Frame{*header, body};
}

Status FrameReader::fill(std::span<std::byte> to) {
  while (!to.empty()) {
    const Result<size_t> n = stream_.read(to, silence_);
    if (!n.ok() && n.status().code() == Code::kCancelled) {
      return {Code::kCancelled, "silent for " + std::to_string(silence_.count()) + " ms"};
    }
    if (!n.ok()) return n.status();
    if (*n == 0) return {Code::kIo, "hung up"};
    to = to.subspan(*n);
  }
  return {};
}

}  // namespace ndtrain
