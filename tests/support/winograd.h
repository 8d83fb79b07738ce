#pragma once

#include <string_view>

namespace ndtrain::support {

// Whether the onednn plugin has it, by its numerics: from AVX2 on.
inline bool has_winograd(std::string_view numerics) {
  return numerics.find("avx2") != numerics.npos || numerics.find("avx512") != numerics.npos;
}

}  // namespace ndtrain::support
