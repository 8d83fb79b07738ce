// A hash of what a photo looks like, which differs in few bits between copies that were resized,
// compressed or brightened: the difference hash (dHash; Krawetz, "Kind of like that", 2013).
#pragma once

#include <bit>
#include <cstdint>

#include "ndp/photos/image.h"

namespace ndtrain::ndp {

// Of the photo's luma at 9 x 8 pixels: bit 8 y + x is whether pixel (x + 1, y) is brighter than
// (x, y). Throws Error for an image without pixels.
uint64_t difference_hash(const Image& photo);

// In how many of the 64 bits two differ.
inline int bits_between(uint64_t a, uint64_t b) { return std::popcount(a ^ b); }

}  // namespace ndtrain::ndp
