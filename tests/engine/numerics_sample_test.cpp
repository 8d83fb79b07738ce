#include "ndp/engine/numerics_sample.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "ndp/photos/decode.h"

namespace ndtrain::ndp {
namespace {

TEST(NumericsSample, PhotosAreTheSameEveryTimeAndNoTwoAlike) {
  const std::vector<std::string> photos = numerics_sample(8);
  EXPECT_EQ(photos, numerics_sample(8));
  EXPECT_EQ(std::set(photos.begin(), photos.end()).size(), 8U);
  const std::vector<std::string> fewer = numerics_sample(3);
  EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), photos.begin()));
}

TEST(NumericsSample, PhotosHaveManyColours) {
  for (const std::string& photo : numerics_sample(8)) {
    EXPECT_LT(photo.size(), size_t{64} << 10);
    const Image image = decode(std::as_bytes(std::span(photo))).or_throw().image;
    std::set<std::array<int, 3>> colours;
    for (size_t i = 0; i + 2 < image.rgb.size(); i += 3) {
      colours.insert({image.rgb[i] / 16, image.rgb[i + 1] / 16, image.rgb[i + 2] / 16});
    }
    EXPECT_GT(colours.size(), 100U);
  }
}

}  // namespace
}  // namespace ndtrain::ndp
