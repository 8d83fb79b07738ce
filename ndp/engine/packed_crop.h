// Crops made smaller without loss: red and blue less green, each row less the row above, then zstd.
// About half of the bytes are left, where zstd alone leaves most of them, and unpacking is much
// faster than decoding a photo (docs/decisions/22-kept-crops.md).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ndp/photos/image.h"

namespace ndtrain::ndp {

// Empty when it would not be shorter than the pixels.
std::vector<std::byte> pack_crop(const Image& crop);

// Into the pixels of `crop`, which has the size that was packed. False, and the pixels are
// anything, when `packed` is not of such a crop.
bool unpack_crop(std::span<const std::byte> packed, Image& crop);

}  // namespace ndtrain::ndp
