#include "framework/train/name_pattern.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <ostream>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

constexpr size_t kNamed = 8;  // of the names that there are, in an error

size_t edits(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t corner = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = corner + (a[i] == b[j] ? 0 : 1);
      corner = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, corner + 1});
    }
  }
  return row.back();
}

// The most like first; equally like ones in their order.
std::string most_like(const std::string& pattern, std::span<const std::string> names) {
  std::vector<std::pair<size_t, size_t>> by_edits;
  for (size_t i = 0; i < names.size(); ++i) by_edits.emplace_back(edits(pattern, names[i]), i);
  std::ranges::sort(by_edits);
  std::string text;
  for (size_t i = 0; i < std::min(kNamed, by_edits.size()); ++i) {
    text += (text.empty() ? "" : ", ") + names[by_edits[i].second];
  }
  if (by_edits.size() > kNamed) {
    text += " and " + std::to_string(by_edits.size() - kNamed) + " more";
  }
  return text;
}

}  // namespace

// Each '*' as little as leaves a place for what follows it: the last part alone has to end the
// name.
bool fits_pattern(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  pattern.remove_prefix(star + 1);
  name.remove_prefix(star);
  while (true) {
    const std::string_view part = pattern.substr(0, pattern.find('*'));
    if (part.size() == pattern.size()) return name.ends_with(part);
    const size_t at = name.find(part);
    if (at == std::string_view::npos) return false;
    pattern.remove_prefix(part.size() + 1);
    name.remove_prefix(at + part.size());
  }
}

std::optional<std::pair<std::string, double>> numbered_pattern(std::string_view text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0) return std::nullopt;
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + equals + 1, end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return std::pair(std::string(text.substr(0, equals)), number);
}

std::vector<std::optional<double>> numbers_of(
    std::string_view what, std::span<const std::string> names,
    std::span<const std::pair<std::string, double>> numbers) {
  std::vector<std::optional<double>> all(names.size());
  for (const auto& [pattern, number] : numbers) {
    bool found = false;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!fits_pattern(pattern, names[i])) continue;
      all[i] = number;
      found = true;
    }
    if (found) continue;
    throw Error(what, " of '", pattern,
                "': no parameter that is trained has such a name; there are ",
                most_like(pattern, names));
  }
  return all;
}

}  // namespace ndtrain
