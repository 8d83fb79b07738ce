#include "ndp/engine/packed_crop.h"

#include <gtest/gtest.h>

#include "framework/core/rng.h"
#include "tests/photos/photo_factory.h"

namespace ndtrain::ndp {
namespace {

// Smooth, with a little noise, as a photo is.
Image photo_like(int side) {
  Image image(side, side);
  const Rng rng(7, "packed crop");
  for (size_t i = 0; i < image.rgb.size(); ++i) {
    const auto x = static_cast<int>(i / 3) % side, y = static_cast<int>(i / 3) / side;
    image.rgb[i] = static_cast<uint8_t>((x * x / 7 + 3 * y) / 2 + 40 * (i % 3) +
                                        static_cast<size_t>(4 * rng.uniform(i)));
  }
  return image;
}

Image noise(int side) {
  Image image(side, side);
  const Rng rng(8, "packed crop");
  for (size_t i = 0; i < image.rgb.size(); ++i) {
    image.rgb[i] = static_cast<uint8_t>(256 * rng.uniform(i));
  }
  return image;
}

TEST(PackedCrop, IsUnpackedToTheSamePixelsWhateverWasThere) {
  for (const int side : {7, 16, 224}) {
    for (const Image& crop : {photo_like(side), testing::flat(side, side, 250, 3, 128)}) {
      const auto packed = pack_crop(crop);
      ASSERT_FALSE(packed.empty());
      EXPECT_LT(packed.size(), crop.rgb.size());
      Image back = noise(side);
      ASSERT_TRUE(unpack_crop(packed, back));
      EXPECT_EQ(back.rgb, crop.rgb);
    }
  }
}

TEST(PackedCrop, TakesHalfOfTheBytesOfSomethingSmooth) {
  const Image crop = photo_like(224);
  EXPECT_LT(pack_crop(crop).size(), crop.rgb.size() / 2);
}

TEST(PackedCrop, IsNoneWhereItWouldNotBeShorter) {
  EXPECT_TRUE(pack_crop(noise(64)).empty());
  EXPECT_TRUE(pack_crop(testing::flat(1, 1, 1, 2, 3)).empty());
}

TEST(PackedCrop, OfAnotherSizeOrCutShortIsRefused) {
  const auto packed = pack_crop(photo_like(32));
  Image same(32, 32), smaller(31, 31), larger(33, 33);
  EXPECT_FALSE(unpack_crop(packed, smaller));
  EXPECT_FALSE(unpack_crop(packed, larger));
  for (size_t n = 0; n < packed.size(); ++n) {
    EXPECT_FALSE(unpack_crop(std::span(packed).first(n), same)) << n;
  }
  EXPECT_TRUE(unpack_crop(packed, same));
}

}  // namespace
}  // namespace ndtrain::ndp
