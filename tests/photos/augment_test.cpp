#include "ndp/photos/augment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "framework/core/error.h"
#include "tests/photos/photo_factory.h"

namespace ndtrain::ndp {
namespace {

using ::testing::HasSubstr;
using testing::test_pattern;

constexpr uint64_t kMany = 20'000;

TEST(Augmentation, IsNamedByItsPartsInAnyOrder) {
  EXPECT_EQ(augmentation_named("crop,flip,cutout"),
            (Augmentation{.crop = true, .flip = true, .cutout = true}));
  EXPECT_EQ(name_of(augmentation_named("cutout,crop")), "crop,cutout");
  EXPECT_EQ(augmentation_named("randaugment,jitter"),
            (Augmentation{.jitter = true, .randaugment = true}));
  EXPECT_TRUE(augmentation_named("jitter").any());
  EXPECT_EQ(name_of(Augmentation{}), "");
  EXPECT_FALSE(Augmentation{}.any());
  for (const char* wrong : {"", "crop,", "crops", "crop flip", "crop=1"}) {
    EXPECT_THROW((void)augmentation_named(wrong), Error) << wrong;
  }
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Augmentation, MixesByTheAlphaThatIsSaid) {
  const Augmentation a = augmentation_named("cutmix=1,flip,mixup=0.2");
  EXPECT_EQ(a, (Augmentation{.flip = true, .mixup = 0.2, .cutmix = 1}));
  EXPECT_EQ(name_of(a), "flip,mixup=0.2,cutmix=1");
  EXPECT_EQ(augmentation_named(name_of(a)), a);
  EXPECT_TRUE(a.mixes() && a.changes_photos());
  EXPECT_FALSE(augmentation_named("flip").mixes());
  EXPECT_FALSE(augmentation_named("mixup=1").changes_photos());
  EXPECT_THAT(refusal([] { (void)augmentation_named("mixup"); }), HasSubstr("as mixup=0.2"));
  for (const char* wrong : {"mixup=", "mixup=0", "mixup=-1", "cutmix=1x", "cutmix=inf"}) {
    EXPECT_THAT(refusal([&] { (void)augmentation_named(wrong); }), HasSubstr("above 0")) << wrong;
  }
}

TEST(Augmentation, OfFeaturesIsMixupOrOfViews) {
  const auto why = [](const char* names, int64_t views, bool frozen) {
    return refusal([&] {
      check_augmentation(*names ? augmentation_named(names) : Augmentation(), views, frozen);
    });
  };
  EXPECT_EQ(why("mixup=0.4", 0, true), "");
  EXPECT_EQ(why("", 0, true), "");
  EXPECT_EQ(why("crop,flip,jitter,randaugment,mixup=1", 3, true), "");
  EXPECT_EQ(why("crop,cutout,cutmix=1", 0, false), "");
  for (const char* names : {"crop", "flip", "cutout", "jitter", "randaugment", "cutmix=1"}) {
    EXPECT_THAT(why(names, 0, true), HasSubstr(std::string("--augment ") + names + ":"));
    EXPECT_THAT(why(names, 0, true), HasSubstr("--freeze none, mix features with --augment mixup"));
  }
  for (const char* names : {"crop,cutout", "crop,cutmix=1"}) {
    EXPECT_THAT(why(names, 3, true), HasSubstr(std::string("--augment ") + names + ":"));
  }
  for (const char* names : {"", "mixup=1"}) {
    EXPECT_THAT(why(names, 3, true), HasSubstr("--views 3: all of them would be alike"));
  }
  EXPECT_THAT(why("crop", 1, false), HasSubstr("--views 1: nothing is frozen"));
}

TEST(AugmentationDraw, IsOfItsSeedItsEpochAndItsPhoto) {
  const auto boxes = [](uint64_t seed, int64_t epoch, uint64_t photo) {
    const PixelBox b = AugmentationDraw(seed, epoch, photo).box(1000, 800);
    return std::vector<int>{b.left, b.top, b.width, b.height};
  };
  EXPECT_EQ(boxes(7, 3, 5), boxes(7, 3, 5));
  const std::set<std::vector<int>> all = {boxes(7, 3, 5), boxes(8, 3, 5), boxes(7, 4, 5),
                                          boxes(7, 3, 6), boxes(7, 5, 3)};
  EXPECT_EQ(all.size(), 5U);
}

TEST(AugmentationDraw, BoxesLieInsideAndHaveTheAreasAndShapesAskedFor) {
  // Means over 400,000 draws of torchvision's RandomResizedCrop.get_params(), rewritten in Python.
  struct Case {
    int width, height;
    double area, log_ratio, left;
  };
  for (const auto& [width, height, mean_area, mean_log_ratio, mean_left] :
       {Case{400, 300, 0.4333, 0.0308, 0.2180}, Case{300, 400, 0.4333, -0.0308, 0.1397},
        Case{250, 250, 0.4798, 0, 0.1649}, Case{800, 300, 0.2424, 0.0393, 0.3491}}) {
    double area = 0, ratio = 0, left = 0;
    int at_edge[4] = {};
    for (uint64_t photo = 0; photo < kMany; ++photo) {
      const PixelBox b = AugmentationDraw(1, 0, photo).box(width, height);
      ASSERT_GE(b.left, 0);
      ASSERT_GE(b.top, 0);
      ASSERT_LE(b.left + b.width, width);
      ASSERT_LE(b.top + b.height, height);
      const double part = static_cast<double>(b.width) * b.height / (width * height);
      ASSERT_GT(part, 0.08 * 0.97) << "sides are whole numbers";
      const double log_ratio = std::log(static_cast<double>(b.width) / b.height);
      ASSERT_LT(std::abs(log_ratio), std::log(4.0 / 3) + 0.02);
      area += part / kMany;
      ratio += log_ratio / kMany;
      left += static_cast<double>(b.left) / width / kMany;
      at_edge[0] += b.left == 0;
      at_edge[1] += b.top == 0;
      at_edge[2] += b.left + b.width == width;
      at_edge[3] += b.top + b.height == height;
    }
    EXPECT_NEAR(area, mean_area, 0.006);
    EXPECT_NEAR(ratio, mean_log_ratio, 0.006);
    EXPECT_NEAR(left, mean_left, 0.006);
    for (const int n : at_edge) EXPECT_GT(n, 20);
  }
}

TEST(AugmentationDraw, WhereNoBoxFitsItIsTheCentre) {
  for (uint64_t photo = 0; photo < 100; ++photo) {
    const AugmentationDraw draw(1, 0, photo);
    PixelBox b = draw.box(1000, 10);
    EXPECT_TRUE(b.left == 493 && b.top == 0 && b.width == 13 && b.height == 10) << b.left;
    b = draw.box(10, 1000);
    EXPECT_TRUE(b.left == 0 && b.top == 493 && b.width == 10 && b.height == 13) << b.top;
    b = draw.box(1, 1);
    EXPECT_TRUE(b.left == 0 && b.top == 0 && b.width == 1 && b.height == 1);
  }
}

TEST(AugmentationDraw, HalfOfThePhotosFlip) {
  uint64_t flips = 0;
  for (uint64_t photo = 0; photo < kMany; ++photo) flips += AugmentationDraw(1, 2, photo).flips();
  EXPECT_NEAR(static_cast<double>(flips) / kMany, 0.5, 0.015);
}

TEST(AugmentationDraw, CutOutIsOfMorePhotosFromEpochToEpoch) {
  constexpr int64_t kEpochs = 5;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const double probability = static_cast<double>(epoch) / kEpochs;
    uint64_t cut = 0;
    for (uint64_t photo = 0; photo < kMany; ++photo) {
      cut += AugmentationDraw(1, epoch, photo).cutout(224, probability).has_value();
    }
    EXPECT_NEAR(static_cast<double>(cut) / kMany, probability, epoch == 0 ? 0 : 0.015);
  }
}

TEST(AugmentationDraw, CutOutIsAQuarterOfTheSideAnywhereInside) {
  for (const auto& [side, edge] : {std::pair{224, 56}, {32, 8}, {3, 1}, {1, 1}}) {
    std::set<int> left, top;
    for (uint64_t photo = 0; photo < kMany; ++photo) {
      const PixelBox b = AugmentationDraw(3, 1, photo).cutout(side, 1).value();
      ASSERT_EQ(b.width, edge);
      ASSERT_EQ(b.height, edge);
      left.insert(b.left);
      top.insert(b.top);
    }
    for (const std::set<int>& places : {left, top}) {
      EXPECT_EQ(*places.begin(), 0);
      EXPECT_EQ(*places.rbegin(), side - edge);
      EXPECT_EQ(places.size(), static_cast<size_t>(side - edge + 1));
    }
  }
}

TEST(Augment, AMirroredImageHasLeftRight) {
  const Image image = test_pattern(31, 17);
  const Image flipped = mirrored(image);
  ASSERT_EQ(flipped.width, 31);
  ASSERT_EQ(flipped.height, 17);
  for (int y = 0; y < 17; ++y) {
    for (int x = 0; x < 31; ++x) {
      for (int c = 0; c < 3; ++c) {
        ASSERT_EQ(flipped.row(y)[3 * x + c], image.row(y)[3 * (30 - x) + c]);
      }
    }
  }
  EXPECT_EQ(mirrored(flipped).rgb, image.rgb);
}

TEST(Augment, CutOutIsZeroInItsBoxAndLeavesTheRest) {
  const PixelBox box{.left = 3, .top = 1, .width = 4, .height = 5};
  for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
    const Preprocess p{.img_size = 9, .resize = 9, .layout = layout};
    std::vector<float> input(p.values(), 1.5F);
    cut_out(box, p, input.data());
    for (size_t y = 0; y < 9; ++y) {
      for (size_t x = 0; x < 9; ++x) {
        for (size_t c = 0; c < 3; ++c) {
          const size_t at = layout == Layout::kNchw ? (c * 9 + y) * 9 + x : (y * 9 + x) * 3 + c;
          const bool inside = x >= 3 && x < 7 && y >= 1 && y < 6;
          ASSERT_EQ(input[at], inside ? 0.0F : 1.5F) << x << "," << y;
        }
      }
    }
  }
}

// One axis of a bilinear filter that widens with the reduction, in double.
std::vector<double> weights(int in, int out, int i) {
  const double scale = static_cast<double>(in) / out, support = std::max(scale, 1.0);
  std::vector<double> w;
  double sum = 0;
  for (int x = 0; x < in; ++x) {
    w.push_back(std::max(0.0, 1 - std::abs(x + 0.5 - (i + 0.5) * scale) / support));
    sum += w.back();
  }
  for (double& x : w) x /= sum;
  return w;
}

TEST(Augment, ACropIsItsBoxAloneResized) {
  const Image photo = test_pattern(90, 70);
  const Preprocess p{.img_size = 24, .resize = 24};
  for (uint64_t number = 0; number < 20; ++number) {
    const PixelBox box = AugmentationDraw(5, 0, number).box(photo.width, photo.height);
    const Image got = crop(photo, box, p);
    for (int y = 0; y < p.img_size; ++y) {
      const std::vector<double> rows = weights(box.height, p.img_size, y);
      for (int x = 0; x < p.img_size; ++x) {
        const std::vector<double> columns = weights(box.width, p.img_size, x);
        for (int c = 0; c < 3; ++c) {
          double want = 0;
          for (int v = 0; v < box.height; ++v) {
            for (int u = 0; u < box.width; ++u) {
              want += rows[v] * columns[u] * photo.row(box.top + v)[3 * (box.left + u) + c];
            }
          }
          ASSERT_NEAR(got.row(y)[3 * x + c], want, 1.01) << "rounded after each of two passes";
        }
      }
    }
  }
}

TEST(Augment, ACropOfTheWholePhotoIsTheSquashedOne) {
  const Image photo = test_pattern(90, 70);
  Preprocess p{.img_size = 32, .interpolation = Interpolation::kBicubic, .squash = true};
  EXPECT_EQ(crop(photo, {.width = 90, .height = 70}, p).rgb, crop(photo, p).rgb);
  EXPECT_THROW(crop(photo, {.left = 1, .width = 90, .height = 70}, p), Error);
  EXPECT_THROW(crop(photo, {.top = -1, .width = 9, .height = 7}, p), Error);
  EXPECT_THROW(crop(photo, {.width = 0, .height = 7}, p), Error);
}

}  // namespace
}  // namespace ndtrain::ndp
