#include "ndp/photos/random_changes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "framework/core/hash.h"
#include "ndp/photos/colour_changes.h"
#include "tests/photos/photo_factory.h"

namespace ndtrain::ndp {
namespace {

using testing::test_pattern;

constexpr uint64_t kManyChanges = 20'000;

struct GoldenOperation {
  int index;
  bool negative;
  const char* sha256;
};

constexpr GoldenOperation kGoldenOperations[] = {
#include "tests/photos/golden_operations.inc"
};

std::string digest_of_change(const Image& image) {
  return to_hex(sha256({reinterpret_cast<const char*>(image.rgb.data()), image.rgb.size()}));
}

TEST(RandAugment, ItsOperationsEqualTorchvisionsBitForBit) {
  ASSERT_EQ(std::size(kGoldenOperations), 2U * kRandomOperations);
  for (const GoldenOperation& g : kGoldenOperations) {
    EXPECT_EQ(digest_of_change(
                  operated(test_pattern(61, 43), {.index = g.index, .negative = g.negative})),
              g.sha256)
        << g.index << (g.negative ? " negative" : "");
  }
}

TEST(RandAugment, EachPairOfOperationsIsAsLikely) {
  std::map<std::pair<int, int>, int> pairs;
  std::array<int, 2> negative{};
  for (uint64_t photo = 0; photo < kManyChanges; ++photo) {
    const auto [first, second] = random_operations(AugmentationDraw(5, 1, photo));
    ++pairs[{first.index, second.index}];
    negative[0] += first.negative;
    negative[1] += second.negative;
  }
  ASSERT_EQ(pairs.size(), size_t{kRandomOperations} * kRandomOperations);
  const double expected =
      static_cast<double>(kManyChanges) / (kRandomOperations * kRandomOperations);
  double chi_squared = 0;
  for (const auto& [pair, n] : pairs) chi_squared += std::pow(n - expected, 2) / expected;
  EXPECT_LT(chi_squared, 274) << "195 degrees of freedom: 1 in 7000";
  for (const int n : negative) EXPECT_NEAR(static_cast<double>(n) / kManyChanges, 0.5, 0.015);
}

TEST(ColourJitter, EachOrderAndAmountIsAsLikely) {
  std::map<std::array<ColourJitter::Change, 4>, int> orders;
  std::array<double, 4> sums{}, least{}, most{};
  least.fill(9);
  most.fill(-9);
  for (uint64_t photo = 0; photo < kManyChanges; ++photo) {
    const ColourJitter j = colour_jitter(AugmentationDraw(5, 1, photo));
    ++orders[j.order];
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] += j.amount[i] / kManyChanges;
      least[i] = std::min(least[i], j.amount[i]);
      most[i] = std::max(most[i], j.amount[i]);
    }
  }
  ASSERT_EQ(orders.size(), 24U);
  for (const auto& [order, n] : orders) EXPECT_NEAR(n, kManyChanges / 24.0, 130);
  for (size_t i = 0; i < sums.size(); ++i) {
    const double middle = i == ColourJitter::kHue ? 0 : 1,
                 range = i == ColourJitter::kHue ? 0.1 : 0.4;
    EXPECT_NEAR(sums[i], middle, range / 50) << i;
    EXPECT_NEAR(least[i], middle - range, range / 100) << i;
    EXPECT_NEAR(most[i], middle + range, range / 100) << i;
    EXPECT_TRUE(least[i] >= middle - range && most[i] <= middle + range) << i;
  }
}

TEST(ColourJitter, IsItsChangesInTheirOrder) {
  const Image image = test_pattern(20, 10);
  const ColourJitter jitter{.order = {ColourJitter::kHue, ColourJitter::kContrast,
                                      ColourJitter::kBrightness, ColourJitter::kSaturation},
                            .amount = {1.4, 0.6, 1.2, -0.1}};
  const Image want =
      with_saturation(with_brightness(with_contrast(with_hue(image, -0.1), 0.6), 1.4), 1.2);
  EXPECT_EQ(digest_of_change(jittered(image, jitter)), digest_of_change(want));
}

}  // namespace
}  // namespace ndtrain::ndp
