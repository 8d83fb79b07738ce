// Integers at the end of bytes, and out of them.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "framework/core/coding.h"

namespace ndtrain {

template <typename T>
void put_le(std::string& to, T value) {
  std::array<std::byte, sizeof(T)> bytes;
  store_le(bytes.data(), value);
  to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

template <typename T>
T get_le(const char* from) {
  return load_le<T>(reinterpret_cast<const std::byte*>(from));
}

}  // namespace ndtrain
