#pragma once

#include <string_view>

namespace ndtrain::support {

// Whether the onednn plugin has it, by its numerics: version 2 of the library where there is
// AVX-512.
inline bool has_winograd(std::string_view numerics) {
  return numerics.find("onednn 2.") != numerics.npos && numerics.find("avx512") != numerics.npos;
}

}  // namespace ndtrain::support
