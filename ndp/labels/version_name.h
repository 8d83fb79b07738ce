// What people call a version of a model, wherever it is spoken of: the number that the Tuner gave
// it. One that no Tuner has published (ndtrain relabel -m FILE) is called by its content's first
// digits, which find any version.
#pragma once

#include <optional>
#include <string>

#include "framework/core/hash.h"

namespace ndtrain::ndp {

inline std::string content_prefix(const Digest& content) { return to_hex(content).substr(0, 12); }

// "3", or "5f2a0c91d4e7".
inline std::string version_name(std::optional<int64_t> number, const Digest& content) {
  return number ? std::to_string(*number) : content_prefix(content);
}

// "3 (5f2a0c91d4e7)", or "5f2a0c91d4e7".
inline std::string full_version_name(std::optional<int64_t> number, const Digest& content) {
  return number ? std::to_string(*number) + " (" + content_prefix(content) + ")"
                : content_prefix(content);
}

}  // namespace ndtrain::ndp
