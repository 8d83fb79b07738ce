// Crops made smaller without loss: red and blue less green, each row less the row above, then zstd.
// About half of the bytes are left, where zstd alone leaves .86; unpacking takes .15 of the time of
// decoding a photo (bench/RESULTS.md).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ndp/photos/image.h"

namespace ndtrain {

// Empty when it would not be shorter than the pixels.
std::vector<std::byte> pack_crop(const Image& crop);

// Into the pixels of `crop`, which has the size that was packed. False, and the pixels are
// anything, when `packed` is not of such a crop.
bool unpack_crop(std::span<const std::byte> packed, Image& crop);

}  // namespace ndtrain
