// The bytes of a segment file; docs/segment_format.md is the same on one page. All integers are
// little-endian, all offsets multiples of 8.
//
//   segment := SegmentHeader record*            every record belongs to the header's group
//   record  := RecordHeader payload zeros       padded to a multiple of 8
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "framework/core/dtype.h"
#include "framework/core/hash.h"

namespace ndtrain::ndp {

inline constexpr uint32_t kSegmentVersion = 1;
inline constexpr size_t kSegmentHeaderBytes = 64;
inline constexpr size_t kRecordHeaderBytes = 72;

// What the caller wants to know about a payload without reading it. The store only carries it.
struct RecordMeta {
  DType dtype = DType::kU8;
  uint8_t codec = 0;      // 0: as is; others are the caller's
  uint64_t numerics = 0;  // numerics_tag of what computed the payload

  bool operator==(const RecordMeta&) const = default;
};

uint64_t numerics_tag(std::string_view numerics_id);

struct SegmentHeader {
  uint32_t version = kSegmentVersion;
  uint32_t number = 0;  // also the file's name; later segments of a group have higher numbers
  uint64_t salt = 0;  // seeds the record headers' checksums: stale bytes of another file never pass
  Digest group{};
};

enum class RecordKind : uint8_t { kPut = 1, kRemove = 2 };  // kRemove: a tombstone, no payload

struct RecordHeader {
  RecordKind kind = RecordKind::kPut;
  RecordMeta meta;
  uint32_t length = 0;  // payload bytes, without padding
  Digest key{};
  uint64_t payload_xxh3 = 0;
};

// Header, payload and padding.
constexpr int64_t record_bytes(uint32_t length) {
  return static_cast<int64_t>(kRecordHeaderBytes) + ((int64_t{length} + 7) & ~int64_t{7});
}

std::array<std::byte, kSegmentHeaderBytes> encode(const SegmentHeader& header);
std::array<std::byte, kRecordHeaderBytes> encode(const RecordHeader& header, uint64_t salt);

// None if a byte is wrong. A segment header of another version decodes, for its version alone.
std::optional<SegmentHeader> decode_segment_header(std::span<const std::byte> bytes);
std::optional<RecordHeader> decode_record_header(std::span<const std::byte> bytes, uint64_t salt);

// The magic of a record header: to find the next record after damage.
bool starts_like_record(std::span<const std::byte> bytes);

std::string segment_name(uint32_t number);                          // "0000000001.seg"
std::optional<uint32_t> segment_number(std::string_view filename);  // none if it is no segment

}  // namespace ndtrain::ndp
