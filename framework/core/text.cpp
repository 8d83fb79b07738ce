#include "framework/core/text.h"

#include <algorithm>
#include <cstdint>

namespace ndtrain {
namespace {

constexpr std::string_view kCut = "…";

// The bytes of the character that `text` begins with; 0 when it is none in UTF-8.
size_t bytes_of_character(std::string_view text, uint32_t& code) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  const size_t n = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (n == 0 || lead > 0xf4 || n > text.size()) return 0;
  code = n == 1 ? lead : lead & (0x7fU >> n);
  for (size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fU);
  }
  const bool overlong = (n == 3 && code < 0x800) || (n == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return overlong || surrogate || code > 0x10ffff ? 0 : n;
}

bool is_control(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

// The plain character that `text` begins with, in bytes; 0 when it begins with none.
size_t plain_character(std::string_view text) {
  uint32_t code = 0;
  const size_t n = bytes_of_character(text, code);
  return n == 0 || is_control(code) ? 0 : n;
}

std::string escape_of(char c) {
  constexpr char kHex[] = "0123456789abcdef";
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  const auto byte = static_cast<uint8_t>(c);
  return {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    uint32_t code = 0;
    const size_t n = bytes_of_character(text, code);
    if (n == 0) return false;
    text.remove_prefix(n);
  }
  return true;
}

bool is_plain(std::string_view text) {
  while (!text.empty()) {
    const size_t n = plain_character(text);
    if (n == 0) return false;
    text.remove_prefix(n);
  }
  return true;
}

std::string printable(std::string_view text, size_t most) {
  if (text.size() <= most && is_plain(text)) return std::string(text);
  std::string out;
  size_t room = 0;  // how much of `out` leaves room for the mark
  while (!text.empty()) {
    const size_t n = plain_character(text);
    const std::string piece = n > 0 ? std::string(text.substr(0, n)) : escape_of(text[0]);
    if (out.size() + piece.size() > most) return out.substr(0, room) + std::string(kCut);
    out += piece;
    if (out.size() + kCut.size() <= most) room = out.size();
    text.remove_prefix(std::max<size_t>(n, 1));
  }
  return out;
}

bool is_path_below(std::string_view path) {
  if (!is_plain(path)) return false;
  for (;;) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace ndtrain
