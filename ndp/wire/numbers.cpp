#include "ndp/wire/numbers.h"

namespace ndtrain::ndp {

std::string pack_numbers(std::span<const uint64_t> numbers) {
  std::string text;
  text.reserve(numbers.size() * 2);
  uint64_t next = 0;  // the smallest number that may come
  for (uint64_t n : numbers) {
    if (n < next || n == UINT64_MAX) throw Error("numbers do not rise: ", n, " after ", next);
    uint64_t difference = n - next;
    for (; difference >= 0x80; difference >>= 7) text += static_cast<char>(difference | 0x80);
    text += static_cast<char>(difference);
    next = n + 1;
  }
  return text;
}

Result<std::vector<uint64_t>> unpack_numbers(std::string_view text, uint64_t end, size_t limit) {
  std::vector<uint64_t> numbers;
  uint64_t next = 0;
  for (size_t i = 0; i < text.size();) {
    uint64_t difference = 0;
    for (int shift = 0;; shift += 7) {
      if (i == text.size()) return Status(Code::kCorrupt, "numbers: cut short");
      const auto byte = static_cast<uint8_t>(text[i++]);
      if (shift == 63 && byte > 1) return Status(Code::kCorrupt, "numbers: beyond 64 bits");
      difference |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) {
        if (byte == 0 && shift > 0) return Status(Code::kCorrupt, "numbers: padded varint");
        break;
      }
    }
    if (next >= end || difference >= end - next) {
      return Status(Code::kCorrupt, "numbers: one is not below " + std::to_string(end));
    }
    if (numbers.size() == limit) {
      return Status(Code::kTooLarge, "more than " + std::to_string(limit) + " numbers");
    }
    numbers.push_back(next + difference);
    next = numbers.back() + 1;
  }
  return numbers;
}

}  // namespace ndtrain::ndp
