#include "ndp/store/segment_format.h"

#include <cstring>

#include "framework/core/coding.h"
#include "framework/core/limits.h"

namespace ndtrain::ndp {
namespace {

// \r\n: a copy that was treated as text is found out.
constexpr char kSegmentMagic[8] = {'N', 'D', 'T', 'S', 'E', 'G', '\r', '\n'};
constexpr char kRecordMagic[4] = {'N', 'R', 'E', 'C'};

constexpr size_t kSegmentChecked = kSegmentHeaderBytes - 8;
constexpr size_t kRecordChecked = kRecordHeaderBytes - 8;

}  // namespace

uint64_t numerics_tag(std::string_view numerics_id) {
  return xxh3(numerics_id.data(), numerics_id.size());
}

std::array<std::byte, kSegmentHeaderBytes> encode(const SegmentHeader& header) {
  std::array<std::byte, kSegmentHeaderBytes> bytes{};
  std::memcpy(bytes.data(), kSegmentMagic, sizeof kSegmentMagic);
  store_le(bytes.data() + 8, header.version);
  store_le(bytes.data() + 12, header.number);
  store_le(bytes.data() + 16, header.salt);
  std::memcpy(bytes.data() + 24, header.group.data(), header.group.size());
  store_le(bytes.data() + kSegmentChecked, xxh3(bytes.data(), kSegmentChecked));
  return bytes;
}

std::array<std::byte, kRecordHeaderBytes> encode(const RecordHeader& header, uint64_t salt) {
  std::array<std::byte, kRecordHeaderBytes> bytes{};
  std::memcpy(bytes.data(), kRecordMagic, sizeof kRecordMagic);
  bytes[4] = static_cast<std::byte>(header.kind);
  bytes[5] = static_cast<std::byte>(header.meta.dtype);
  bytes[6] = static_cast<std::byte>(header.meta.codec);
  store_le(bytes.data() + 8, header.length);
  store_le(bytes.data() + 16, header.meta.numerics);
  std::memcpy(bytes.data() + 24, header.key.data(), header.key.size());
  store_le(bytes.data() + 56, header.payload_xxh3);
  store_le(bytes.data() + kRecordChecked, xxh3(bytes.data(), kRecordChecked, salt));
  return bytes;
}

std::optional<SegmentHeader> decode_segment_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kSegmentHeaderBytes) return {};
  if (std::memcmp(bytes.data(), kSegmentMagic, sizeof kSegmentMagic) != 0) return {};
  if (load_le<uint64_t>(bytes.data() + kSegmentChecked) != xxh3(bytes.data(), kSegmentChecked)) {
    return {};
  }
  SegmentHeader header;
  header.version = load_le<uint32_t>(bytes.data() + 8);
  header.number = load_le<uint32_t>(bytes.data() + 12);
  header.salt = load_le<uint64_t>(bytes.data() + 16);
  std::memcpy(header.group.data(), bytes.data() + 24, header.group.size());
  return header;
}

std::optional<RecordHeader> decode_record_header(std::span<const std::byte> bytes, uint64_t salt) {
  if (bytes.size() < kRecordHeaderBytes || !starts_like_record(bytes)) return {};
  if (load_le<uint64_t>(bytes.data() + kRecordChecked) !=
      xxh3(bytes.data(), kRecordChecked, salt)) {
    return {};
  }
  RecordHeader header;
  header.kind = static_cast<RecordKind>(bytes[4]);
  header.meta.dtype = static_cast<DType>(bytes[5]);
  header.meta.codec = static_cast<uint8_t>(bytes[6]);
  header.length = load_le<uint32_t>(bytes.data() + 8);
  header.meta.numerics = load_le<uint64_t>(bytes.data() + 16);
  std::memcpy(header.key.data(), bytes.data() + 24, header.key.size());
  header.payload_xxh3 = load_le<uint64_t>(bytes.data() + 56);
  if (header.kind != RecordKind::kPut && header.kind != RecordKind::kRemove) return {};
  if (header.meta.dtype > DType::kBool || record_bytes(header.length) > limits::kRecord) return {};
  return header;
}

bool starts_like_record(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof kRecordMagic &&
         std::memcmp(bytes.data(), kRecordMagic, sizeof kRecordMagic) == 0;
}

std::string segment_name(uint32_t number) {
  std::string digits = std::to_string(number);
  return std::string(10 - digits.size(), '0') + digits + ".seg";
}

std::optional<uint32_t> segment_number(std::string_view filename) {
  if (filename.size() != 14 || !filename.ends_with(".seg")) return {};
  uint64_t number = 0;
  for (const char c : filename.substr(0, 10)) {
    if (c < '0' || c > '9') return {};
    number = number * 10 + static_cast<uint64_t>(c - '0');
  }
  if (number > UINT32_MAX) return {};
  return static_cast<uint32_t>(number);
}

}  // namespace ndtrain::ndp
