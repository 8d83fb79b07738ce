#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ndtrain::cli {

// The candidate nearest to a mistyped word by edit distance, when it is near enough to be meant;
// else "".
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// Of a verb's flags: the one that other programs call `word` ("learning-rate": "lr"), or the
// nearest, or the only one that has it as a part ("smoothing": "label-smoothing"); else "".
std::string nearest_flag(std::string_view word, std::span<const std::string> flags);

}  // namespace ndtrain::cli
