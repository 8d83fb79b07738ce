#include "ndp/store/segment_scan.h"

#include <algorithm>
#include <vector>

namespace ndtrain::ndp {
namespace {

constexpr int64_t kWindowBytes = 1 << 20;

// The next offset from `begin` on at which a good header stands, or `end`.
Result<int64_t> next_record(File& file, uint64_t salt, int64_t begin, int64_t end) {
  std::vector<std::byte> window;
  while (begin + static_cast<int64_t>(kRecordHeaderBytes) <= end) {
    window.resize(static_cast<size_t>(std::min(kWindowBytes, end - begin)));
    Result<size_t> got = file.read_at(begin, window);
    if (!got.ok()) return got.status();
    const std::span<const std::byte> bytes(window.data(), *got);
    size_t i = 0;
    for (; i + kRecordHeaderBytes <= bytes.size(); i += 8) {
      if (starts_like_record(bytes.subspan(i)) && decode_record_header(bytes.subspan(i), salt)) {
        return begin + static_cast<int64_t>(i);
      }
    }
    if (i == 0) break;  // the file got shorter under us
    begin += static_cast<int64_t>(i);
  }
  return end;
}

}  // namespace

Status read_payload(File& file, const RecordHeader& header, int64_t offset,
                    std::span<std::byte> payload) {
  Result<size_t> got = file.read_at(offset + static_cast<int64_t>(kRecordHeaderBytes), payload);
  if (!got.ok()) return got.status();
  if (*got != payload.size() || xxh3(payload.data(), payload.size()) != header.payload_xxh3) {
    return {Code::kCorrupt, "record at " + std::to_string(offset) + ": wrong payload checksum"};
  }
  return {};
}

Result<RecordHeader> read_header(File& file, uint64_t salt, const Location& at) {
  std::array<std::byte, kRecordHeaderBytes> bytes;
  Result<size_t> got = file.read_at(at.offset, bytes);
  if (!got.ok()) return got.status();
  const auto header = decode_record_header({bytes.data(), *got}, salt);
  if (!header || header->kind != RecordKind::kPut || header->length != at.length) {
    return Status(Code::kCorrupt, "wrong record header");
  }
  return *header;
}

Result<RecordHeader> read_header(File& file, uint64_t salt, const Location& at, const Digest& key) {
  Result<RecordHeader> header = read_header(file, salt, at);
  if (header.ok() && header->key != key) {
    return Status(Code::kNotFound, "a record of another key");
  }
  return header;
}

Result<RecordHeader> read_record(File& file, uint64_t salt, const Location& at, const Digest& key,
                                 std::span<std::byte> payload) {
  const Result<RecordHeader> header = read_header(file, salt, at, key);
  if (!header.ok()) return header;
  if (Status s = read_payload(file, *header, at.offset, payload); !s.ok()) return s;
  return header;
}

Result<int64_t> scan_segment(File& file, uint64_t salt, int64_t begin, bool verify_payloads,
                             const RecordVisitor& visit) {
  Result<int64_t> size = file.size();
  if (!size.ok()) return size.status();
  std::array<std::byte, kRecordHeaderBytes> bytes;
  std::vector<std::byte> payload;
  int64_t last_end = begin;
  for (int64_t at = begin; at < *size;) {
    Result<size_t> got = file.read_at(at, bytes);
    if (!got.ok()) return got.status();
    const auto header = decode_record_header({bytes.data(), *got}, salt);
    if (!header || at + record_bytes(header->length) > *size) {
      Result<int64_t> next = next_record(file, salt, at + 8, *size);
      if (!next.ok()) return next.status();
      at = *next;
      continue;
    }
    const int64_t end = at + record_bytes(header->length);
    Status good;
    if (verify_payloads) {
      payload.resize(header->length);
      good = read_payload(file, *header, at, payload);
      if (!good.ok() && good.code() != Code::kCorrupt) return good;
    }
    if (good.ok()) {
      if (Status s = visit(*header, at); !s.ok()) return s;
      last_end = end;
    }
    at = end;
  }
  return last_end;
}

}  // namespace ndtrain::ndp
