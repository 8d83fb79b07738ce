// ndt_lint ROOT            checks the source tree at ROOT; exit 1 when a rule is broken
// ndt_lint ROOT --headers  prints the headers that still have to be compiled alone, one per line
// ndt_lint --table         prints who may include whom, for docs/architecture.md
#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "tools/lint/rules.h"

namespace fs = std::filesystem;
using ndtrain::lint::File;

namespace {

// Build trees and what git keeps are not sources; .ci is.
bool is_skipped_folder(const fs::path& p) {
  const std::string name = p.filename();
  return (name.starts_with('.') && name != ".ci") || name.starts_with("build");
}

bool is_read(const fs::path& p) {
  if (p.filename() == "LICENSE" || p.filename() == ".git") return false;  // .git: of a worktree
  constexpr std::string_view kEndings[] = {".h",   ".cpp", ".inc",  ".cu",   ".cmake",
                                           ".txt", ".md",  ".json", ".py",   ".sh",
                                           ".in",  ".js",  ".css",  ".html", ""};
  return std::ranges::count(kEndings, std::string_view(p.extension().native())) > 0;
}

std::vector<File> read_tree(const fs::path& root) {
  std::vector<File> tree;
  for (fs::recursive_directory_iterator it(root), end; it != end; ++it) {
    if (it->is_directory()) {
      if (is_skipped_folder(it->path())) it.disable_recursion_pending();
      continue;
    }
    if (!it->is_regular_file() || !is_read(it->path())) continue;
    std::ifstream in(it->path(), std::ios::binary);
    tree.push_back({fs::relative(it->path(), root).generic_string(),
                    {std::istreambuf_iterator<char>(in), {}}});
  }
  std::ranges::sort(tree, {}, &File::path);
  return tree;
}

int run(const std::string& root, bool headers) {
  const std::vector<File> tree = read_tree(root);
  if (headers) {
    for (const std::string& h : ndtrain::lint::unproven_headers(tree)) std::cout << h << '\n';
    return 0;
  }
  for (const std::string& f : ndtrain::lint::long_files(tree)) {
    std::cout << "long: " << f << " (which two subjects are in it?)\n";
  }
  const auto problems = ndtrain::lint::check_tree(tree);
  for (const auto& p : problems) std::cout << p.path << ':' << p.line << ": " << p.what << '\n';
  std::cout << tree.size() << " files, " << problems.size() << " problems\n";
  return problems.empty() && !tree.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--table") {
    std::cout << ndtrain::lint::include_table();
    return 0;
  }
  const bool headers = argc == 3 && std::string(argv[2]) == "--headers";
  if (argc != 2 && !headers) {
    std::cerr << "usage: ndt_lint ROOT [--headers] | --table\n";
    return 2;
  }
  try {
    return run(argv[1], headers);
  } catch (const std::exception& e) {
    std::cerr << "ndt_lint: " << e.what() << '\n';
    return 1;
  }
}
