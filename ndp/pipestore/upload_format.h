// The bytes of a log of uploads. Integers are little-endian.
//
//   file   := header header record*                   the header twice, as one may be damaged
//   header := "NDTUPL2\n", u64 salt, u64 XXH3 of these
//   record := "NUPL", u32 bytes of the line, u64 XXH3 of the line, u64 XXH3 of these, line
//
// A record's checksums are seeded with the salt, which is drawn for each file: nothing that people
// say in a line passes for a record. After damage reading goes on at the next good record. Earlier
// programs wrote "NDTUPL1\n" { u64 XXH3 of the line, u32 bytes, line }*.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/fs.h"

namespace ndtrain::ndp::upload_format {

inline constexpr size_t kHead = 24;  // of a record, before its line
inline constexpr uint32_t kLongestLine = 1 << 20;

std::string header(uint64_t salt);
std::string record(uint64_t salt, std::string_view line);

// Whether `bytes`, a head and its line, are a record of this file.
bool is_record(std::string_view bytes, uint64_t salt);

struct LogHeader {
  int version = 2;     // or 1
  uint64_t salt = 0;   // of version 2
  bool whole = true;   // false: one of its two copies is damaged
  int64_t bytes = 48;  // up to the first record
};
// kCorrupt when there is none.
Result<LogHeader> read_header(File& file);

// A part of the file that is no record; good ones stand before it, and perhaps behind it.
struct LogDamage {
  int64_t at = 0, bytes = 0;
};
struct LogWalk {
  int64_t end = 0;   // of the last good record
  int64_t torn = 0;  // bytes behind it that are of an append which a crash cut off
  std::vector<LogDamage> damage;
};
// The line, and where it begins in the file. False: it is not understood, and counts as damage.
using LineVisitor = std::function<bool(std::string_view line, int64_t at)>;
// All good records of the file's first `size` bytes, in their order.
Result<LogWalk> walk(File& file, const LogHeader& header, int64_t size, const LineVisitor& visit);

}  // namespace ndtrain::ndp::upload_format
