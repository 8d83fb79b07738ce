// Names of parameters as people write them: "layer4.*", and a number of each, "*.bias=0.5".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ndtrain {

// Whether the whole name is the pattern, in which each '*' stands for anything, or nothing.
bool fits_pattern(std::string_view pattern, std::string_view name);

// "fc.weight=0.5" as a pattern and a number; nullopt where it is not that. The pattern is not
// empty.
std::optional<std::pair<std::string, double>> numbered_pattern(std::string_view text);

// For each of `names` what the last of `numbers` says whose pattern fits it; nullopt where none
// does. Throws Error for a pattern that fits none of them: "WHAT of 'PATTERN': no parameter ...",
// with the names that are most like it (by their edit distance; V. Levenshtein, 1966), eight at
// most.
std::vector<std::optional<double>> numbers_of(
    std::string_view what, std::span<const std::string> names,
    std::span<const std::pair<std::string, double>> numbers);

}  // namespace ndtrain
