// Structs in Thrift's compact protocol (github.com/apache/thrift,
// doc/specs/thrift-compact-protocol.md), as much of it as the metadata of a Parquet file needs.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/byte_reader.h"

namespace ndtrain::ndp {

class ThriftWriter {
 public:
  enum Kind : uint8_t { kI32 = 5, kI64 = 6, kBinary = 8, kList = 9, kStruct = 12 };

  // Fields of the struct at hand, by rising ids.
  void i32(int id, int32_t value) {
    field(id, kI32);
    zigzag(value);
  }
  void i64(int id, int64_t value) {
    field(id, kI64);
    zigzag(value);
  }
  void binary(int id, std::string_view value) {
    field(id, kBinary);
    binary(value);
  }
  void begin_struct(int id) {
    field(id, kStruct);
    begin_struct();
  }
  // Its elements come next, without ids.
  void begin_list(int id, Kind elements, size_t count) {
    field(id, kList);
    const bool is_short = count < 15;
    byte((is_short ? count << 4 : 0xf0) | elements);
    if (!is_short) put_varint(text_, count);
  }

  // Elements of a list; and the whole.
  void i32(int32_t value) { zigzag(value); }
  void binary(std::string_view value) {
    put_varint(text_, value.size());
    text_ += value;
  }
  void begin_struct() {
    outer_.push_back(last_);
    last_ = 0;
  }
  void end_struct() {
    byte(0);
    last_ = outer_.back();
    outer_.pop_back();
  }

  const std::string& bytes() const { return text_; }

 private:
  void byte(uint64_t b) { text_ += static_cast<char>(b); }
  void zigzag(int64_t v) {
    put_varint(text_, std::bit_cast<uint64_t>(v) << 1 ^ std::bit_cast<uint64_t>(v >> 63));
  }
  void field(int id, Kind kind) {
    const int step = id - last_;  // 1 to 15 in all structs that are written here
    byte(static_cast<uint64_t>(step) << 4 | kind);
    last_ = id;
  }

  std::string text_;
  std::vector<int> outer_;  // the last ids of the structs around
  int last_ = 0;
};

}  // namespace ndtrain::ndp
