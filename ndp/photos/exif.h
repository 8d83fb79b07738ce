#pragma once

#include <cstdint>
#include <span>

#include "ndp/photos/image.h"

namespace ndtrain::ndp {

// The orientation (tag 0x0112 of IFD0; EXIF 2.32, 4.6.4) in a TIFF block, either byte order. 1
// (upright) when there is none or the block is damaged: untrusted, never reads outside `tiff`.
int exif_orientation(std::span<const uint8_t> tiff);

// Some writers begin the block as JPEG's APP1 does, with "Exif" and two zeros.
std::span<const uint8_t> without_exif_mark(std::span<const uint8_t> block);

// The image as it should be seen, for an orientation of 1 to 8.
Image upright(Image image, int orientation);

}  // namespace ndtrain::ndp
