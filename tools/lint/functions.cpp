// How long functions are, by the layout that clang-format gives them: a body ends with a brace at
// the indentation of the line its definition begins on.
#include <algorithm>

#include "tools/lint/rules.h"
#include "tools/lint/text.h"

namespace ndtrain::lint {
namespace {

size_t indentation(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

bool opens_other(std::string_view line) {
  constexpr std::string_view kOthers[] = {"namespace", "class", "struct", "union", "enum",
                                          "extern",    "if",    "for",    "while", "switch",
                                          "do",        "else",  "try",    "case"};
  const std::string_view word = line.substr(0, line.find_first_of(" ({"));
  return std::ranges::count(kOthers, word) > 0;
}

// The first line of the definition whose body opens at the end of lines[at].
size_t head_of(std::span<const std::string_view> lines, size_t at, size_t indent) {
  while (at > 0 && indentation(lines[at]) != indent) --at;
  return at;
}

bool ends_a_statement(std::string_view line) {
  return line.empty() || line.ends_with(';') || line.ends_with('}') || line.ends_with('{') ||
         trimmed(line).starts_with("//") || trimmed(line).starts_with('#');
}

// Whether the lines from `head` to `open` are a function's: one statement with parameters, and no
// value before them.
bool is_function(std::span<const std::string_view> lines, size_t head, size_t open) {
  if (opens_other(trimmed(lines[head])) || trimmed(lines[head]).starts_with('}')) return false;
  for (size_t i = head; i < open; ++i) {
    if (ends_a_statement(lines[i])) return false;
  }
  for (size_t i = head; i <= open; ++i) {
    if (lines[i].ends_with(" =")) return false;
    const size_t parenthesis = lines[i].find('(');
    if (parenthesis == lines[i].npos) continue;
    const std::string_view before = lines[i].substr(0, parenthesis);
    return before.find(" = ") == before.npos;
  }
  return false;
}

// The line that closes what opens at lines[open]; as many as there are, if none does.
size_t end_of(std::span<const std::string_view> lines, size_t open, size_t indent) {
  for (size_t i = open + 1; i < lines.size(); ++i) {
    const std::string_view text = trimmed(lines[i]);
    if (indentation(lines[i]) == indent && text.starts_with('}') && !text.ends_with('{')) return i;
  }
  return lines.size();
}

bool is_checked(std::string_view path) {
  return (is_cpp(path) && !path.starts_with("tests/") && !path.starts_with("examples/"));
}

}  // namespace

std::vector<Problem> check_functions(const File& file) {
  std::vector<Problem> problems;
  if (!is_checked(file.path)) return problems;
  const std::vector<std::string_view> lines = lines_of(file.text);
  for (const size_t indent : {0, 2}) {
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!lines[i].ends_with('{')) continue;
      const size_t head = head_of(lines, i, indent);
      if (indentation(lines[head]) != indent || !is_function(lines, head, i)) continue;
      const size_t end = end_of(lines, i, indent), length = end - head + 1;
      if (length > kMostFunctionLines) {
        problems.push_back({file.path, head + 1,
                            "a function of " + std::to_string(length) + " lines, at most " +
                                std::to_string(kMostFunctionLines) + " are allowed"});
      }
      i = end;
    }
  }
  return problems;
}

}  // namespace ndtrain::lint
