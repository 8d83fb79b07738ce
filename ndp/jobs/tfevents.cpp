#include "ndp/jobs/tfevents.h"

#include <array>
#include <cstring>

#include "framework/core/byte_reader.h"

namespace ndtrain::ndp {
namespace {

// CRC-32C (Castagnoli), reflected polynomial 0x82f63b78.
uint32_t crc32c(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = (c >> 1) ^ (c & 1 ? 0x82f63b78U : 0);
      t[i] = c;
    }
    return t;
  }();
  uint32_t crc = ~0U;
  for (char byte : bytes) crc = table[(crc ^ static_cast<uint8_t>(byte)) & 255] ^ (crc >> 8);
  return ~crc;
}

template <typename T>
void put(std::string& out, T v) {
  out.append(reinterpret_cast<const char*>(&v), sizeof v);
}

// Record format: length, masked CRC of the length, data, masked CRC of the data.
std::string record(std::string_view data) {
  auto masked = [](std::string_view bytes) {
    const uint32_t crc = crc32c(bytes);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
  };
  std::string out;
  put<uint64_t>(out, data.size());
  put<uint32_t>(out, masked(out));
  out += data;
  put<uint32_t>(out, masked(data));
  return out;
}

enum Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void tag(std::string& out, int field, Wire wire) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | wire);
}

void bytes(std::string& out, int field, std::string_view value) {
  tag(out, field, kBytes);
  put_varint(out, value.size());
  out += value;
}

// Event { double wall_time = 1; int64 step = 2; … }
std::string event(double wall_time, int64_t step) {
  std::string e;
  tag(e, 1, kFixed64);
  put(e, wall_time);
  tag(e, 2, kVarint);
  put_varint(e, static_cast<uint64_t>(step));
  return e;
}

}  // namespace

std::string tfevents_header(double wall_time) {
  std::string e = event(wall_time, 0);
  bytes(e, 3, "brain.Event:2");  // file_version
  return record(e);
}

std::string tfevents_scalar(double wall_time, int64_t step, std::string_view name, float value) {
  std::string v;  // Summary.Value { string tag = 1; float simple_value = 2; }
  bytes(v, 1, name);
  tag(v, 2, kFixed32);
  put(v, value);
  std::string summary;  // Summary { repeated Value value = 1; }
  bytes(summary, 1, v);
  std::string e = event(wall_time, step);
  bytes(e, 5, summary);  // Event.summary
  return record(e);
}

}  // namespace ndtrain::ndp
