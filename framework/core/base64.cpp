#include "framework/core/base64.h"

#include <cstdint>

namespace ndtrain {

std::string to_base64(std::string_view bytes) {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t v = 0;
    for (size_t k = 0; k < 3; ++k)
      v = v << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k)
      out += i + k > bytes.size() ? '=' : kDigits[v >> (18 - 6 * k) & 63];
  }
  return out;
}

}  // namespace ndtrain
