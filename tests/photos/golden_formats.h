// Files of golden_formats.py, for tests.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ndtrain::testing {

struct GoldenFile {
  std::string_view format, name, hex;
  int width = 0, height = 0;
  std::string_view pixels;  // their SHA-256, or all of them, as PIL has them
};

std::span<const GoldenFile> golden_files();
// Throws Error where there is none.
std::string golden_file(std::string_view format, std::string_view name);

}  // namespace ndtrain::testing
