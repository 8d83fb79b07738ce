#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace ndtrain::lint {

inline bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Views into `text`, without line ends.
inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

inline std::string_view trimmed(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  return s;
}

inline bool has_word(std::string_view line, std::string_view word) {
  for (size_t at = line.find(word); at != line.npos; at = line.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_word(line[at - 1])) && (end == line.size() || !is_word(line[end]))) {
      return true;
    }
  }
  return false;
}

// The path of a quoted include, or "".
inline std::string_view quoted_include(std::string_view line) {
  line = trimmed(line);
  if (!line.starts_with('#')) return {};
  line = trimmed(line.substr(1));
  if (!line.starts_with("include")) return {};
  line = trimmed(line.substr(std::string_view("include").size()));
  if (!line.starts_with('"')) return {};
  line.remove_prefix(1);
  return line.substr(0, line.find('"'));
}

inline bool is_header(std::string_view path) { return path.ends_with(".h"); }
inline bool is_source(std::string_view path) { return path.ends_with(".cpp"); }
inline bool is_cpp(std::string_view path) {
  return is_header(path) || is_source(path) || path.ends_with(".inc") || path.ends_with(".cu");
}

}  // namespace ndtrain::lint
