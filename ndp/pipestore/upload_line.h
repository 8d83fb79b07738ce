// One line of a log of uploads as it stands in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "framework/core/hash.h"
#include "ndp/store/coding.h"

namespace ndtrain {

inline constexpr size_t kLineHead = 12;  // u64 XXH3 of the line, u32 its bytes
inline constexpr uint32_t kLongestLine = 1 << 20;

inline std::string framed(const std::string& line) {
  std::string out(kLineHead, '\0');
  auto* head = reinterpret_cast<std::byte*>(out.data());
  store_le<uint64_t>(head, xxh3(line.data(), line.size()));
  store_le<uint32_t>(head + 8, static_cast<uint32_t>(line.size()));
  return out + line;
}

}  // namespace ndtrain
