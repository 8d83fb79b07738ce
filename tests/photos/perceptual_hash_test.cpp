#include "ndp/photos/perceptual_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "framework/core/error.h"
#include "framework/core/rng.h"
#include "ndp/photos/decode.h"
#include "ndp/photos/encode.h"
#include "ndp/photos/resize.h"
#include "tests/photos/photo_factory.h"

namespace ndtrain::ndp {
namespace {

// 9 x 8 pixels, so that nothing is resized: bit 8 y + x by the definition.
TEST(PerceptualHash, HasABitForEachPixelThatIsBrighterThanTheOneOnItsLeft) {
  Rng rng(1, "pixels");
  Image image(9, 8);
  uint64_t expected = 0;
  for (int y = 0; y < 8; ++y) {
    for (int x = 0; x < 9; ++x) {
      // The least change of luma that there is: one of blue.
      uint8_t* const p = image.row(y) + 3 * x;
      p[0] = p[1] = 100;
      p[2] = static_cast<uint8_t>(x == 0 ? 100 : p[-1] + static_cast<int>(rng.next_below(3)) - 1);
      if (x > 0 && p[2] > p[-1]) expected |= uint64_t{1} << (8 * y + x - 1);
    }
  }
  EXPECT_NE(expected, 0U);
  EXPECT_EQ(difference_hash(image), expected);
  EXPECT_EQ(difference_hash(testing::flat(9, 8, 7, 7, 7)), 0U);
  EXPECT_THROW(difference_hash(Image()), Error);
}

// Soft spots, as photos have: what is drawn by one seed is a scene.
Image scene(uint64_t seed, int width, int height) {
  Rng rng(seed, "scene");
  Image image(width, height);
  double x[6], y[6], light[6];
  for (int s = 0; s < 6; ++s) {
    x[s] = rng.next_uniform(), y[s] = rng.next_uniform(), light[s] = 200 * rng.next_uniform() - 100;
  }
  for (int j = 0; j < height; ++j) {
    for (int i = 0; i < width; ++i) {
      double v = 128;
      for (int s = 0; s < 6; ++s) {
        const double dx = (i + 0.5) / width - x[s], dy = (j + 0.5) / height - y[s];
        v += light[s] * std::exp(-12 * (dx * dx + dy * dy));
      }
      const auto value = static_cast<uint8_t>(std::clamp(v, 0.0, 255.0));
      std::fill_n(image.row(j) + 3 * i, 3, value);
    }
  }
  return image;
}

TEST(PerceptualHash, CopiesDifferInFewBitsAndOtherScenesInMany) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Image photo = scene(seed, 240, 160);
    const uint64_t hash = difference_hash(photo);
    const Image half = resize(photo, 120, 80, Interpolation::kBicubic);
    EXPECT_LE(bits_between(hash, difference_hash(half)), 3) << seed;
    const std::string file = encode_jpeg(photo);
    const Result<Decoded> again = decode(std::as_bytes(std::span(file)));
    ASSERT_TRUE(again.ok());
    EXPECT_LE(bits_between(hash, difference_hash(again->image)), 3) << seed;
    for (uint64_t other = 0; other < seed; ++other) {
      EXPECT_GT(bits_between(hash, difference_hash(scene(other, 240, 160))), 3)
          << seed << " and " << other;
    }
  }
}

}  // namespace
}  // namespace ndtrain::ndp
