// Digests as keys of hash tables.
#pragma once

#include <cstring>

#include "framework/core/hash.h"

namespace ndtrain {

// The first bytes of a SHA-256 are as random as any hash of all of them.
struct DigestHash {
  size_t operator()(const Digest& digest) const {
    size_t h = 0;
    std::memcpy(&h, digest.data(), sizeof h);
    return h;
  }
};

}  // namespace ndtrain
