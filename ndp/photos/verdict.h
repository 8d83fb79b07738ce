#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ndtrain::ndp {

enum class PhotoState : uint8_t {
  kOk,
  kQuarantined,  // corrupt, too large, unreadable, or not what its name says; counts as an error
  kSkipped,      // a format or variant we do not read; counted apart
  kMissing,      // not there in the last scan
  kDeleted,      // not there in the last two scans, or forgotten
};

std::string_view name_of(PhotoState s);  // "ok", "quarantined", …

struct Verdict {
  PhotoState state = PhotoState::kOk;  // kOk, kQuarantined or kSkipped
  std::string reason;                  // "" when ok
};

// What can be said about a photo from its name, its magic bytes and its header. Pixels are not
// decoded: kOk is a promise of none. Thread-safe.
Verdict judge_photo(std::string_view path, std::span<const std::byte> file);

}  // namespace ndtrain::ndp
