#include "tools/lint/rules.h"

#include <algorithm>
#include <map>

#include "tools/lint/text.h"

namespace ndtrain::lint {
namespace {

// In two parts each, so that this file passes its own rules.
const std::vector<std::string> kNotes = {
    "TO"
    "DO",
    "FIX"
    "ME",
    "XX"
    "X",
    "HA"
    "CK"};
const std::vector<std::string> kMachinePaths = {
    "/ho"
    "me/",
    "/ro"
    "ot/",
    "/wo"
    "rk/",
    "/Us"
    "ers/"};
const std::vector<std::string> kEmptyNames = {"Manager", "Helper", "Helpers", "Util",
                                              "Utils",   "Impl",   "Base"};

void append(std::vector<Problem>& to, std::vector<Problem> from) {
  to.insert(to.end(), from.begin(), from.end());
}

// `line` up to a // that is not inside quotes.
std::string_view without_comment(std::string_view line) {
  bool quoted = false;
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    if (line[i] == '"' && (i == 0 || line[i - 1] != '\\')) quoted = !quoted;
    if (!quoted && line[i] == '/' && line[i + 1] == '/') return line.substr(0, i);
  }
  return line;
}

// The names that a line declares as types.
std::vector<std::string_view> declared_types(std::string_view line) {
  std::vector<std::string_view> names;
  std::string_view previous;
  for (size_t i = 0; i < line.size();) {
    if (!is_word(line[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < line.size() && is_word(line[end])) ++end;
    const std::string_view word = line.substr(i, end - i);
    const bool qualifies = line.substr(end).starts_with("::");
    for (const std::string_view keyword :
         {"class", "struct", "union", "enum", "using", "concept"}) {
      if (previous == keyword && !qualifies && word != "class") names.push_back(word);
    }
    previous = word;
    i = end;
  }
  return names;
}

bool starts_test(std::string_view line) {
  line = trimmed(line);
  for (const std::string_view macro : {"TEST(", "TEST_F(", "TEST_P(", "TYPED_TEST("}) {
    if (line.starts_with(macro)) return true;
  }
  return false;
}

// Why a line of a test keeps a test from running, or "".
std::string silenced(std::string_view line) {
  const std::string_view t = trimmed(line);
  if (t.starts_with("//") || t.starts_with("/*")) {
    return starts_test(t.substr(2)) ? "a test is commented out" : "";
  }
  if (t.starts_with("#if 0")) return "code is switched off";
  if (line.find("DIS"
                "ABLED_") != line.npos)
    return "a test is switched off";
  return "";
}

// Why a line of a CMakeLists.txt keeps a test from running, or "".
std::string left_out(std::string_view line) {
  const size_t comment = line.find('#');
  if (comment == line.npos || line.find("_test.cpp", comment) == line.npos) return "";
  return "a test is commented out";
}

// Whether a line calls nlohmann's parser or writer.
bool calls_json(std::string_view line) {
  for (const std::string_view call : {"json::parse(", "Json::parse(", "json::accept(",
                                      "Json::accept(", "::sax_parse(", ".dump(", "->dump("}) {
    if (line.find(call) != line.npos) return true;
  }
  return false;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, slash);
}

}  // namespace

std::vector<Problem> check_length(const File& file) {
  const size_t lines = lines_of(file.text).size();
  if (file.path == kArchitecture && lines > kPageLines) {
    return {{file.path, lines,
             std::to_string(lines) + " lines, at most " + std::to_string(kPageLines) +
                 " are one page: what is a decision of its own?"}};
  }
  if (!is_cpp(file.path) || lines <= kMostLines) return {};
  return {{file.path, lines,
           std::to_string(lines) + " lines, at most " + std::to_string(kMostLines) +
               " are allowed: which subjects are in it?"}};
}

std::vector<Problem> check_type_names(const File& file) {
  std::vector<Problem> problems;
  if (!is_cpp(file.path)) return problems;
  size_t number = 0;
  for (const std::string_view line : lines_of(file.text)) {
    ++number;
    for (const std::string_view name : declared_types(without_comment(line))) {
      for (const std::string& suffix : kEmptyNames) {
        if (!name.ends_with(suffix)) continue;
        problems.push_back(
            {file.path, number,
             "type " + std::string(name) + ": " + suffix + " does not say what it is"});
        break;
      }
    }
  }
  return problems;
}

std::vector<Problem> check_words(const File& file) {
  std::vector<Problem> problems;
  size_t number = 0;
  for (const std::string_view line : lines_of(file.text)) {
    ++number;
    for (const std::string& word : kNotes) {
      if (has_word(line, word))
        problems.push_back({file.path, number, "a note to oneself: " + word});
    }
    for (const std::string& path : kMachinePaths) {
      const size_t at = line.find(path);
      if (at == line.npos || (at > 0 && (is_word(line[at - 1]) || line[at - 1] == '.'))) continue;
      problems.push_back({file.path, number, "a path of one machine: " + path});
    }
  }
  return problems;
}

std::vector<Problem> check_json_calls(const File& file) {
  std::vector<Problem> problems;
  const bool product = file.path.starts_with("framework/") || file.path.starts_with("ndp/") ||
                       file.path.starts_with("tuner/") || file.path.starts_with("cli/") ||
                       file.path.starts_with("models/") || file.path.starts_with("backends/");
  const bool itself = file.path.starts_with("framework/core/json") ||
                      file.path == "framework/train/safetensors.cpp";  // with sorted keys
  if (!is_cpp(file.path) || !product || itself) return problems;
  size_t number = 0;
  for (const std::string_view line : lines_of(file.text)) {
    ++number;
    if (!calls_json(without_comment(line))) continue;
    problems.push_back({file.path, number,
                        "nlohmann's own parser or writer: framework/core/json_input.h reads what "
                        "others wrote, framework/core/json.h the program's own"});
  }
  return problems;
}

std::vector<Problem> check_guard(const File& file) {
  if (!is_header(file.path)) return {};
  for (const std::string_view line : lines_of(file.text)) {
    if (line.starts_with("#pragma once") || line.starts_with("#ifndef NDT_")) return {};
    if (line.starts_with("#include")) break;
  }
  return {{file.path, 1, "no #pragma once before the first include"}};
}

std::vector<Problem> check_tests(std::span<const File> tree) {
  std::map<std::string, const File*> lists;
  for (const File& f : tree) {
    if (f.path.ends_with("CMakeLists.txt")) lists[folder_of(f.path)] = &f;
  }
  std::vector<Problem> problems;
  for (const File& f : tree) {
    if (!f.path.starts_with("tests/")) continue;
    const bool list = f.path.ends_with("CMakeLists.txt");
    if (!list && !is_cpp(f.path)) continue;
    size_t number = 0;
    for (const std::string_view line : lines_of(f.text)) {
      ++number;
      const std::string why = list ? left_out(line) : silenced(line);
      if (!why.empty()) problems.push_back({f.path, number, why});
    }
    if (!f.path.ends_with("_test.cpp")) continue;
    const auto it = lists.find(folder_of(f.path));
    const std::string name = f.path.substr(f.path.rfind('/') + 1);
    if (it == lists.end() || !has_word(it->second->text, name)) {
      problems.push_back({f.path, 1, "is in no CMakeLists.txt, so it never runs"});
    }
  }
  return problems;
}

std::vector<Problem> check_tree(std::span<const File> tree) {
  std::vector<Problem> problems;
  for (const File& f : tree) {
    for (const auto rule : {check_includes, check_table, check_length, check_functions,
                            check_type_names, check_words, check_json_calls, check_guard}) {
      append(problems, rule(f));
    }
  }
  append(problems, check_types_once(tree));
  append(problems, check_tests(tree));
  return problems;
}

std::vector<std::string> long_files(std::span<const File> tree) {
  std::vector<std::string> found;
  for (const File& f : tree) {
    const size_t lines = lines_of(f.text).size();
    if (is_cpp(f.path) && lines > kSuspiciousLines) {
      found.push_back(std::to_string(lines) + " " + f.path);
    }
  }
  return found;
}

}  // namespace ndtrain::lint
