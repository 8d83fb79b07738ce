#pragma once

#include <string_view>

namespace ndtrain::support {

// Whether the onednn plugin has it, by its numerics: from AVX2 on.
inline bool has_winograd(std::string_view numerics) {
  constexpr auto kNowhere = std::string_view::npos;
  return numerics.find("avx2") != kNowhere || numerics.find("avx512") != kNowhere;
}

}  // namespace ndtrain::support
