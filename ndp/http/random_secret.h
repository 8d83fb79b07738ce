// What nobody guesses.
#pragma once

#include <openssl/rand.h>

#include <array>
#include <cstdint>

#include "framework/core/error.h"

namespace ndtrain::ndp {

inline std::array<uint8_t, 32> random_secret() {
  std::array<uint8_t, 32> bytes;
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) throw Error("OpenSSL: no random numbers");
  return bytes;
}

}  // namespace ndtrain::ndp
