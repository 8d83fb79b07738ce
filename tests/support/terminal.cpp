#include "tests/support/terminal.h"

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <regex>

#include "framework/core/error.h"

namespace ndtrain::support {
namespace {

constexpr char kClear = '\x01';  // stands for what clears to the end of a line

std::string without_colours(const std::string& text) {
  static const std::regex kClears("\x1b\\[K"), kEscape("\x1b\\[[0-9;?]*[A-Za-z]");
  return std::regex_replace(std::regex_replace(text, kClears, std::string(1, kClear)), kEscape, "");
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> pieces(1);
  for (const char c : text) {
    if (c == at) {
      pieces.emplace_back();
    } else {
      pieces.back() += c;
    }
  }
  return pieces;
}

size_t characters(const std::string& utf8) {
  return static_cast<size_t>(
      std::ranges::count_if(utf8, [](char c) { return c != kClear && (c & 0xC0) != 0x80; }));
}

}  // namespace

Shown run_in_terminal(const std::string& command, const std::string& directory, int columns) {
  const winsize size{.ws_row = 24, .ws_col = static_cast<unsigned short>(columns)};
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child < 0) throw Error("no terminal can be had for a test");
  if (child == 0) {
    if (chdir(directory.c_str()) == 0) execl("/bin/bash", "bash", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  Shown shown;
  std::array<char, 4096> piece;
  for (ssize_t n; (n = read(terminal, piece.data(), piece.size())) > 0;) {
    shown.bytes.append(piece.data(), static_cast<size_t>(n));
  }
  close(terminal);
  int status = 0;
  waitpid(child, &status, 0);
  shown.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return shown;
}

std::vector<std::string> visible_lines(const std::string& bytes) {
  std::vector<std::string> lines;
  for (const std::string& line : split(without_colours(bytes), '\n')) {
    std::string visible;  // each piece covers as much of the one before as it is long
    for (const std::string& piece : split(line, '\r')) {
      if (piece.starts_with(kClear)) visible.clear();
      visible = piece + (piece.size() < visible.size() ? visible.substr(piece.size()) : "");
    }
    std::erase(visible, kClear);
    visible.erase(visible.find_last_not_of(' ') + 1);
    lines.push_back(visible);
  }
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

size_t widest_rewritten(const std::string& bytes) {
  size_t widest = 0;
  for (const std::string& line : split(without_colours(bytes), '\n')) {
    std::vector<std::string> pieces = split(line, '\r');
    if (!pieces.empty() && pieces.back().empty())
      pieces.pop_back();  // the terminal's own, at the end
    for (size_t i = 0; i + 1 < pieces.size(); ++i) widest = std::max(widest, characters(pieces[i]));
  }
  return widest;
}

}  // namespace ndtrain::support
