#include "ndp/photos/perceptual_hash.h"

#include "ndp/photos/resize.h"

namespace ndtrain::ndp {
namespace {

// ITU-R 601, in thousandths.
int luma(const uint8_t* rgb) { return 299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2]; }

}  // namespace

uint64_t difference_hash(const Image& photo) {
  constexpr int kSide = 8;
  const Image small = resize(photo, kSide + 1, kSide, Interpolation::kBilinear);
  uint64_t hash = 0;
  for (int y = 0; y < kSide; ++y) {
    const uint8_t* const row = small.row(y);
    for (int x = 0; x < kSide; ++x) {
      if (luma(row + 3 * (x + 1)) > luma(row + 3 * x)) hash |= uint64_t{1} << (kSide * y + x);
    }
  }
  return hash;
}

}  // namespace ndtrain::ndp
