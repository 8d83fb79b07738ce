#include "cli/text_table.h"

#include <algorithm>
#include <cstddef>

#include "framework/core/text.h"

namespace ndtrain::cli {

namespace {

// Code points, of which most take a column.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

bool is_numeric(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.+-/%") == std::string::npos;
}

}  // namespace

std::string text_table(std::vector<std::vector<std::string>> rows) {
  std::vector<size_t> widths;
  std::vector<bool> right;
  for (size_t y = 0; y < rows.size(); ++y) {
    widths.resize(std::max(widths.size(), rows[y].size()));
    right.resize(widths.size(), true);
    for (size_t x = 0; x < rows[y].size(); ++x) {
      rows[y][x] = printable(rows[y][x]);
      widths[x] = std::max(widths[x], width_of(rows[y][x]));
      right[x] = right[x] && (y == 0 || is_numeric(rows[y][x]));
    }
  }
  std::string out;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t x = 0; x < row.size(); ++x) {
      const std::string gap(widths[x] - width_of(row[x]), ' ');
      line += (x == 0 ? "" : "  ") + (right[x] ? gap + row[x] : row[x] + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace ndtrain::cli
