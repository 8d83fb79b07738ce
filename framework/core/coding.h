// Little-endian integers in byte buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ndtrain {

template <typename T>
void store_le(std::byte* to, T value) {
  const auto bits = static_cast<std::make_unsigned_t<T>>(value);
  for (size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<std::byte>(bits >> 8 * i & 0xff);
}

template <typename T>
T load_le(const std::byte* from) {
  std::make_unsigned_t<T> bits = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    bits = static_cast<std::make_unsigned_t<T>>(
        bits | static_cast<std::make_unsigned_t<T>>(static_cast<uint8_t>(from[i])) << 8 * i);
  }
  return static_cast<T>(bits);
}

}  // namespace ndtrain
