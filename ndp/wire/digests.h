// Digests as messages carry them: 32 bytes, or none at all.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "framework/core/hash.h"

namespace ndtrain::ndp {

inline std::string bytes_of(const Digest& d) {
  return {reinterpret_cast<const char*>(d.data()), d.size()};
}

// Nullopt for bytes of another number.
inline std::optional<Digest> digest_of(const std::string& bytes) {
  Digest d{};
  if (bytes.size() != d.size()) return std::nullopt;
  std::ranges::copy(bytes, d.begin());
  return d;
}

}  // namespace ndtrain::ndp
