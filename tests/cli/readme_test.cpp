// README.md as a newcomer follows it: its commands in order, as printed, in a terminal of 80
// columns and in a directory where scripts/demo has run. What it prints of their output must come,
// but for figures; "..." stands for what it leaves out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sstream>

#include "framework/core/fs.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/terminal.h"

namespace ndtrain {
namespace {

constexpr int kColumns = 80;

struct Example {
  std::string command;
  std::vector<std::string> output;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Of README's fenced blocks: a command behind each "$ ", or the demo's own report, which README has
// without the progress of what it does.
std::vector<Example> examples() {
  std::vector<Example> found;
  bool fenced = false, example = false;
  for (const std::string& line :
       lines_of(real_fs().read(support::source_path("/README.md")).or_throw())) {
    if (line.starts_with("```")) {
      fenced = !fenced;
      example = false;
    } else if (fenced && line == "== ndtrain demo build/demo") {
      found.push_back({"ndtrain demo build/demo 2> progress", {}});
      example = true;
    } else if (fenced && line.starts_with("$ ")) {
      found.push_back({line.substr(2), {}});
      example = true;
    } else if (fenced && example) {
      found.back().output.push_back(line);
    }
  }
  return found;
}

// Figures differ between machines, and so do the blanks that align them.
std::string without_figures(const std::string& line) {
  static const std::regex kFigure("[0-9]+([.,][0-9]+)*"), kBlanks(" +");
  return std::regex_replace(std::regex_replace(line, kFigure, "#"), kBlanks, " ");
}

bool fits(const std::string& line, const std::string& printed) {
  static const std::regex kSpecial(R"([.^$|()\[\]{}*+?\\])"), kGap(R"(\\\.\\\.\\\.|…)");
  std::string pattern = std::regex_replace(without_figures(printed), kSpecial, R"(\$&)");
  pattern = std::regex_replace(pattern, kGap, ".*");
  return std::regex_match(without_figures(line), std::regex(pattern));
}

// Whether the lines from `at` on are what is printed from `line` on; `furthest` becomes the last
// line that any attempt came to.
bool follows(const std::vector<std::string>& shown, size_t at,
             const std::vector<std::string>& printed, size_t line, size_t& furthest) {
  furthest = std::max(furthest, line);
  if (line == printed.size()) return at == shown.size();
  if (printed[line] != "...") {
    return at < shown.size() && fits(shown[at], printed[line]) &&
           follows(shown, at + 1, printed, line + 1, furthest);
  }
  for (size_t next = at; next <= shown.size(); ++next) {
    if (follows(shown, next, printed, line + 1, furthest)) return true;
  }
  return false;
}

// The first printed line that does not come where README has it; "" when all do.
std::string missing(const std::vector<std::string>& shown,
                    const std::vector<std::string>& printed) {
  size_t furthest = 0;
  if (follows(shown, 0, printed, 0, furthest)) return "";
  return furthest < printed.size() ? printed[furthest] : "an end, or ... for what follows";
}

TEST(Readme, ItsCommandsWorkAsPrintedInATerminalOfEightyColumns) {
  const support::TemporaryDirectory directory;
  const std::string program = std::filesystem::path(support::program_path()).parent_path();
  const std::string path = program + ":" + std::getenv("PATH");
  ASSERT_EQ(setenv("PATH", path.c_str(), 1), 0);
  ASSERT_EQ(setenv("NDTRAIN_CACHE", directory.at("cache").c_str(), 1), 0);
  const std::vector<Example> all = examples();
  ASSERT_GT(all.size(), 20u);
  for (const Example& e : all) {
    SCOPED_TRACE("$ " + e.command);
    const support::Shown shown = support::run_in_terminal(e.command, directory.path(), kColumns);
    EXPECT_EQ(shown.code, 0) << shown.bytes;
    EXPECT_LT(support::widest_rewritten(shown.bytes), kColumns) << shown.bytes;
    if (e.output.empty()) continue;
    EXPECT_EQ(missing(support::visible_lines(shown.bytes), e.output), "") << shown.bytes;
  }
}

}  // namespace
}  // namespace ndtrain
