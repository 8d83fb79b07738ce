#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ndtrain::cli {

// The candidate nearest to a mistyped word by edit distance, when it is near enough to be meant;
// else "".
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace ndtrain::cli
