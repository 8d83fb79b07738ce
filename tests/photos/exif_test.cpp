#include "ndp/photos/exif.h"

#include <gtest/gtest.h>

#include "ndp/photos/decode.h"
#include "tests/photos/photo_factory.h"

namespace ndtrain::ndp {
namespace {

using testing::bytes_of;
using testing::exif_with_orientation;

int parse(std::string_view tiff) {
  return exif_orientation({reinterpret_cast<const uint8_t*>(tiff.data()), tiff.size()});
}

// Where the stored pixel (x, y) of a w x h image is seen, by the table of EXIF 2.32, 4.6.4: what
// the stored first row and first column are on the upright picture.
std::pair<int, int> seen_at(int orientation, int x, int y, int w, int h) {
  switch (orientation) {
    case 1:  // row 0 is the top, column 0 the left-hand side
      return {x, y};
    case 2:  // top, right
      return {w - 1 - x, y};
    case 3:  // bottom, right
      return {w - 1 - x, h - 1 - y};
    case 4:  // bottom, left
      return {x, h - 1 - y};
    case 5:  // left, top
      return {y, x};
    case 6:  // right, top
      return {h - 1 - y, x};
    case 7:  // right, bottom
      return {h - 1 - y, w - 1 - x};
    default:  // left, bottom
      return {y, w - 1 - x};
  }
}

TEST(Exif, OrientationIsReadInBothByteOrders) {
  for (int o = 1; o <= 8; ++o) {
    EXPECT_EQ(parse(exif_with_orientation(o, true)), o);
    EXPECT_EQ(parse(exif_with_orientation(o, false)), o);
  }
}

TEST(Exif, ValuesOutsideTheTableMeanUpright) {
  for (int o : {0, 9, 255, 0x0100}) {
    EXPECT_EQ(parse(exif_with_orientation(o, true)), 1);
    EXPECT_EQ(parse(exif_with_orientation(o, false)), 1);
  }
}

TEST(Exif, DamagedBlocksMeanUprightAndNothingIsReadBeyondThem) {
  for (bool little : {true, false}) {
    const std::string good = exif_with_orientation(6, little);
    for (size_t n = 0; n < 34; ++n) EXPECT_EQ(parse(good.substr(0, n)), 1) << n;
    for (size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = '\xff';
      const int o = parse(bad);
      EXPECT_TRUE(o >= 1 && o <= 8);
    }
  }
}

TEST(Exif, EveryOrientationIsUndoneInJpegAndPng) {
  const Image stored = testing::test_pattern(5, 3);
  for (int o = 1; o <= 8; ++o) {
    const Result<Decoded> png =
        decode(bytes_of(testing::png_of(stored, exif_with_orientation(o, o % 2 == 0))));
    ASSERT_TRUE(png.ok()) << png.status().message();
    EXPECT_EQ(png->orientation, o);
    ASSERT_EQ(png->image.width, o < 5 ? 5 : 3);
    for (int y = 0; y < 3; ++y) {
      for (int x = 0; x < 5; ++x) {
        const auto [ux, uy] = seen_at(o, x, y, 5, 3);
        for (int c = 0; c < 3; ++c) {
          ASSERT_EQ(png->image.row(uy)[3 * ux + c], stored.row(y)[3 * x + c])
              << "orientation " << o << " pixel " << x << "," << y;
        }
      }
    }
    const Result<Decoded> plain = decode(bytes_of(testing::jpeg_of(stored)));
    const Result<Decoded> jpeg =
        decode(bytes_of(testing::jpeg_of(stored, {.exif = exif_with_orientation(o, o % 2 == 1)})));
    ASSERT_TRUE(plain.ok() && jpeg.ok());
    EXPECT_EQ(jpeg->orientation, o);
    EXPECT_EQ(jpeg->image.rgb, upright(plain->image, o).rgb);
  }
}

}  // namespace
}  // namespace ndtrain::ndp
