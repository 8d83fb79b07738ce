// Columns for people.
#pragma once

#include <string>
#include <vector>

namespace ndtrain::cli {

// Rows as lines, each column as wide as its longest cell, two spaces between; the first row is the
// head. Numbers and "-" stand on the right. What moves a cursor or ends a line is written out
// (framework/core/text.h).
std::string text_table(std::vector<std::vector<std::string>> rows);

}  // namespace ndtrain::cli
