#pragma once

#include <span>
#include <string>
#include <string_view>

#include "framework/core/fs.h"

namespace ndtrain::support {

inline std::span<const std::byte> bytes_of(std::string_view s) {
  return std::as_bytes(std::span(s));
}

// In place of what was there; directories that lack are made.
inline void write_file(Fs& fs, const std::string& path, std::string_view bytes) {
  fs.make_directories(parent_of(path)).or_throw();
  fs.open(path, Fs::Mode::kCreate).or_throw()->append(bytes_of(bytes)).or_throw();
}

}  // namespace ndtrain::support
