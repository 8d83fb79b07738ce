// Numbers and bytes of a format, from its front; and the varints (LEB128) of such formats.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ndtrain {

void put_varint(std::string& to, uint64_t n);
size_t varint_bytes(uint64_t n);  // that put_varint() writes

// What throws, throws Error: the bytes are not what they should be. The text is borrowed.
class ByteReader {
 public:
  explicit ByteReader(std::string_view text) : text_(text) {}
  uint64_t varint();
  std::string_view bytes(uint64_t n);
  std::string_view rest() { return bytes(text_.size()); }
  bool empty() const { return text_.empty(); }
  size_t size() const { return text_.size(); }  // of what is left

 private:
  std::string_view text_;
};

}  // namespace ndtrain
