#include "ndp/photos/preprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/fs.h"
#include "framework/core/hash.h"
#include "tests/photos/photo_factory.h"
#include "tests/support/paths.h"

namespace ndtrain::ndp {
namespace {

using testing::bytes_of;
using ::testing::HasSubstr;
using testing::test_pattern;

struct GoldenCrop {
  const char* file;
  const char* pixels;
  const char* bilinear;
  const char* bicubic;
};

constexpr GoldenCrop kGoldenCrops[] = {
#include "tests/photos/golden_crops.inc"
};

std::string digest_of_pixels(const Image& image) {
  return to_hex(sha256({reinterpret_cast<const char*>(image.rgb.data()), image.rgb.size()}));
}

TEST(Preprocess, RealPhotosEqualPilBitForBit) {
  const std::string root = support::shared_path("/data");
  if (!real_fs().exists(root)) GTEST_SKIP() << root << " is not there";
  for (const GoldenCrop& g : kGoldenCrops) {
    SCOPED_TRACE(g.file);
    const Result<std::string> file = real_fs().read(join(root, g.file));
    ASSERT_TRUE(file.ok()) << file.status().message();
    const Result<Decoded> d = decode(bytes_of(*file));
    ASSERT_TRUE(d.ok()) << d.status().message();
    EXPECT_EQ(digest_of_pixels(d->image), g.pixels);
    EXPECT_EQ(digest_of_pixels(crop(d->image, {})), g.bilinear);
    EXPECT_EQ(digest_of_pixels(crop(d->image, {.interpolation = Interpolation::kBicubic})),
              g.bicubic);
  }
}

// torchvision: the long side is int(size * long / short), the corner int(round((have - want) / 2)).
TEST(Preprocess, CropIsTheCentreOfTheResizedPhoto) {
  struct Case {
    int width, height, img_size, resize, resized_width, resized_height, left, top;
  };
  for (const Case& c : {Case{100, 75, 20, 32, 42, 32, 11, 6},      // 42.67; 11, 6
                        Case{75, 100, 20, 32, 32, 42, 6, 11},      //
                        Case{64, 64, 21, 32, 32, 32, 6, 6},        // 5.5 rounds to 6
                        Case{64, 64, 23, 32, 32, 32, 4, 4},        // 4.5 rounds to 4
                        Case{301, 40, 16, 16, 120, 16, 52, 0}}) {  // 120.4
    const Image photo = test_pattern(c.width, c.height);
    const Preprocess p{.img_size = c.img_size, .resize = c.resize};
    const Image whole = resize(photo, c.resized_width, c.resized_height, p.interpolation);
    const Image got = crop(photo, p);
    ASSERT_EQ(got.width, c.img_size);
    ASSERT_EQ(got.height, c.img_size);
    for (int y = 0; y < c.img_size; ++y) {
      for (int x = 0; x < 3 * c.img_size; ++x) {
        ASSERT_EQ(got.row(y)[x], whole.row(c.top + y)[3 * c.left + x])
            << c.width << "x" << c.height << " at " << x << "," << y;
      }
    }
  }
}

TEST(Preprocess, ASmallerPhotoIsCentredInBlack) {
  const Image photo = testing::flat(30, 15, 9, 8, 7);
  const Image got = crop(photo, {.img_size = 21, .resize = 10});  // 20 x 10
  for (int y = 0; y < 21; ++y) {
    for (int x = 0; x < 21; ++x) {
      const bool inside = y >= 5 && y < 15 && x < 20;
      ASSERT_EQ(got.row(y)[3 * x], inside ? 9 : 0) << x << "," << y;
    }
  }
}

TEST(Preprocess, SquashUsesTheWholePhoto) {
  const Image photo = test_pattern(60, 20);
  const Preprocess p{.img_size = 16, .squash = true};
  EXPECT_EQ(crop(photo, p).rgb, resize(photo, 16, 16, p.interpolation).rgb);
}

TEST(Preprocess, ExtremeShapesCostOnlyTheCrop) {
  const Image photo = test_pattern(32768, 1);
  const Image got = crop(photo, {.img_size = 8, .resize = kLargestInput});
  EXPECT_EQ(got.rgb.size(), 192u);
}

TEST(Preprocess, NormalizeFollowsTheFormulaInBothLayouts) {
  const Image image = test_pattern(7, 7);
  Preprocess p{.img_size = 7};
  std::vector<float> planar(p.values()), interleaved(p.values());
  normalize(image, p, planar.data());
  p.layout = Layout::kNhwc;
  normalize(image, p, interleaved.data());
  for (int i = 0; i < 49; ++i) {
    for (int c = 0; c < 3; ++c) {
      const float scaled = static_cast<float>(image.rgb[3 * i + c]) / 255.0f;
      const float want = (scaled - p.mean[c]) / p.std[c];
      EXPECT_EQ(planar[49 * c + i], want);
      EXPECT_EQ(interleaved[3 * i + c], want);
    }
  }
  EXPECT_THROW(normalize(test_pattern(7, 8), p, planar.data()), Error);
}

TEST(Preprocess, MetadataReadsBackExactlyAndIsStable) {
  const Preprocess odd{.img_size = 299,
                       .resize = 342,
                       .interpolation = Interpolation::kBicubic,
                       .squash = true,
                       .mean = {0.1f, 1.0f / 3, 1e-7f},
                       .std = {0.5f, 255.0f, 0.2f},
                       .layout = Layout::kNhwc,
                       .fast_decode = true};
  for (const Preprocess& p : {Preprocess{}, odd}) EXPECT_EQ(from_metadata(to_metadata(p)), p);
  EXPECT_EQ(to_metadata({}).at("preprocess.mean"), "0.485,0.456,0.406");
  EXPECT_EQ(to_metadata({}).at("preprocess.interpolation"), "bilinear");
  EXPECT_EQ(to_metadata({}).size(), 8u);
}

TEST(Preprocess, ForeignMetadataIsIgnored) {
  EXPECT_EQ(from_metadata({}), std::nullopt);
  EXPECT_EQ(from_metadata({{"author", "x"}}), std::nullopt);
  EXPECT_EQ(from_metadata({{"author", "x"}, {"preprocess.img_size", "64"}}),
            (Preprocess{.img_size = 64}));
}

TEST(Preprocess, BadMetadataIsRefusedByName) {
  const std::pair<const char*, const char*> bad[] = {
      {"img_size", "0"},      {"img_size", "8193"},
      {"img_size", "12x"},    {"img_size", ""},
      {"resize", "-1"},       {"interpolation", "nearest"},
      {"mean", "1,2"},        {"mean", "1,2,3,4"},
      {"mean", "1,2,nan"},    {"std", "0,1,1"},
      {"std", "1,1,inf"},     {"layout", "chw"},
      {"fast_decode", "yes"}, {"img_size", "99999999999999"},
      {"colour", "rgb"},      {"squash", "1"}};
  for (const auto& [key, value] : bad) {
    try {
      (void)from_metadata({{std::string("preprocess.") + key, value}});
      ADD_FAILURE() << key << " = " << value << " was accepted";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(key));
    }
  }
  EXPECT_NO_THROW(validate({.img_size = kLargestInput}));
}

TEST(Preprocess, CropPctIsTimms) {
  EXPECT_EQ(resize_for_crop_pct(224, 0.875), 256);
  EXPECT_EQ(resize_for_crop_pct(224, 0.9), 248);
  EXPECT_EQ(resize_for_crop_pct(224, 1.0), 224);
  for (double bad : {0.0, -1.0, 1.01, std::nan(""), 1e-9}) {
    EXPECT_THROW(resize_for_crop_pct(224, bad), Error);
  }
}

TEST(Preprocess, FastDecodeGivesNearlyTheSameCrop) {
  Image smooth(800, 600);
  for (int y = 0; y < 600; ++y) {
    for (int x = 0; x < 2400; ++x) smooth.row(y)[x] = static_cast<uint8_t>((x / 3 + y) / 6);
  }
  const std::string file = testing::jpeg_of(smooth, {.quality = 95});
  const Preprocess fast{.fast_decode = true};
  const Result<Decoded> small = decode(bytes_of(file), decode_options(fast));
  const Result<Decoded> full = decode(bytes_of(file), decode_options({}));
  ASSERT_TRUE(small.ok() && full.ok());
  EXPECT_EQ(small->image.height, 300);
  const Image a = crop(small->image, fast), b = crop(full->image, fast);
  for (size_t i = 0; i < a.rgb.size(); ++i) ASSERT_NEAR(a.rgb[i], b.rgb[i], 3);
}

}  // namespace
}  // namespace ndtrain::ndp
