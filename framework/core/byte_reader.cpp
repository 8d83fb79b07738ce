#include "framework/core/byte_reader.h"

#include <algorithm>
#include <bit>

#include "framework/core/error.h"

namespace ndtrain {

void put_varint(std::string& to, uint64_t n) {
  for (; n >= 0x80; n >>= 7) to += static_cast<char>(n | 0x80);
  to += static_cast<char>(n);
}

size_t varint_bytes(uint64_t n) { return (std::max<size_t>(std::bit_width(n), 1) + 6) / 7; }

uint64_t ByteReader::varint() {
  uint64_t n = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes(1)[0]);
    if (shift == 63 && byte > 1) throw Error("a number beyond 64 bits");
    n |= uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return n;
  }
}

std::string_view ByteReader::bytes(uint64_t n) {
  if (n > text_.size()) throw Error("it ends early");
  const std::string_view front = text_.substr(0, n);
  text_.remove_prefix(n);
  return front;
}

}  // namespace ndtrain
