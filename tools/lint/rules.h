// The rules of the house that a program can hold: who may include whom, file length, names, words,
// tests that are registered and alive. A file is text with a path relative to the root of the
// source tree, so that every rule can be fed a bad sample.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace ndtrain::lint {

struct File {
  std::string path;  // "framework/core/shape.h"
  std::string text;
};

struct Problem {
  std::string path;
  size_t line;  // from 1
  std::string what;

  bool operator==(const Problem&) const = default;
};

inline constexpr size_t kSuspiciousLines = 400, kMostLines = 600, kMostFunctionLines = 60;
inline constexpr std::string_view kArchitecture = "docs/architecture.md";
inline constexpr size_t kPageLines = 100;

// Who may include whom besides itself, as docs/architecture.md has it: a line for each folder.
std::string include_table();
// docs/architecture.md has it.
std::vector<Problem> check_table(const File& file);
// Quoted includes are paths from the root, to a folder that the including one may know.
std::vector<Problem> check_includes(const File& file);
// At most kMostLines lines; the architecture is one page of kPageLines.
std::vector<Problem> check_length(const File& file);
// Functions of the product have at most kMostFunctionLines lines.
std::vector<Problem> check_functions(const File& file);
// Types are named after what they are.
std::vector<Problem> check_type_names(const File& file);
// No notes to oneself, no paths of one machine.
std::vector<Problem> check_words(const File& file);
// A header can be included twice.
std::vector<Problem> check_guard(const File& file);
// The product parses and writes JSON by framework/core/json.h and json_input.h, which look at the
// text first and are compiled once.
std::vector<Problem> check_json_calls(const File& file);
// No two types of one qualified name in one program, where each function that is compiled with one
// of them may be linked with the other.
std::vector<Problem> check_types_once(std::span<const File> tree);
// No test is commented out, switched off, or left out of its CMakeLists.txt.
std::vector<Problem> check_tests(std::span<const File> tree);

// All of the above.
std::vector<Problem> check_tree(std::span<const File> tree);

// Headers that are the first include of no source, so that the build does not show that they
// compile alone.
std::vector<std::string> unproven_headers(std::span<const File> tree);

// Files longer than kSuspiciousLines, as "LINES PATH".
std::vector<std::string> long_files(std::span<const File> tree);

}  // namespace ndtrain::lint
