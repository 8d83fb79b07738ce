// Antialiased resizing, equal to PIL's Image.resize bit for bit: the filter widens with the
// reduction, coefficients have 22 fractional bits, columns first, eight bits between the two passes
// (Pillow, src/libImaging/Resample.c describes the method).
#pragma once

#include <cstddef>
#include <cstdint>

#include "ndp/photos/image.h"

namespace ndtrain::ndp {

enum class Interpolation : uint8_t { kBilinear, kBicubic };

struct PixelBox {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;
};

// The pixels in `box` of `from` resized to width x height, computing no others. Row y goes to
// out + stride * y. Throws Error when a size is not positive or the box does not lie inside.
// Thread-safe.
void resize(const Image& from, int width, int height, Interpolation interpolation,
            const PixelBox& box, uint8_t* out, size_t stride);

Image resize(const Image& from, int width, int height, Interpolation interpolation);

}  // namespace ndtrain::ndp
