#include "ndp/photos/mixing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "framework/core/rng.h"

namespace ndtrain::ndp {
namespace {

constexpr int64_t kManyMixes = 20'000;

struct GoldenMix {
  std::string what;
  double share;
  int x, y;
  double sum, own, other;
};

const std::vector<GoldenMix>& golden_mixes() {
  static const std::vector<GoldenMix> all = {
#include "tests/photos/golden_mixes.inc"
  };
  return all;
}

TEST(Mixing, IsTorchvisionsMixUpAndCutMix) {
  constexpr int kSide = 10;
  const Preprocess p{.img_size = kSide, .resize = kSide};
  ASSERT_EQ(golden_mixes().size(), 16U);
  for (const GoldenMix& g : golden_mixes()) {
    std::vector<float> picture(p.values()), other(p.values());
    for (size_t k = 0; k < picture.size(); ++k) {
      picture[k] = static_cast<float>(k % 7);
      other[k] = static_cast<float>(k % 5);
    }
    double own = g.share;
    if (g.what == "cutmix") {
      const PixelBox box = cutmix_box(kSide, g.share, g.x, g.y);
      paste(box, p, other.data(), picture.data());
      own = 1 - static_cast<double>(box.width) * box.height / (kSide * kSide);
    } else {
      mix_up(other, g.share, picture);
    }
    double sum = 0;
    for (size_t k = 0; k < picture.size(); ++k) sum += picture[k] * static_cast<double>(k % 11);
    EXPECT_NEAR(sum, g.sum, 1e-6 * g.sum) << g.what << " " << g.share << " " << g.x;
    EXPECT_NEAR(own, g.own, 1e-7) << g.what << " " << g.share << " " << g.x;
    EXPECT_NEAR(1 - own, g.other, 1e-7);
  }
}

TEST(Mixing, PastesTheSameBoxOfPlanesAndOfPixels) {
  const PixelBox box{.left = 1, .top = 2, .width = 3, .height = 1};
  for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
    const Preprocess p{.img_size = 4, .resize = 4, .layout = layout};
    std::vector<float> to(p.values(), 1), other(p.values(), 2);
    paste(box, p, other.data(), to.data());
    for (size_t y = 0; y < 4; ++y) {
      for (size_t x = 0; x < 4; ++x) {
        for (size_t c = 0; c < 3; ++c) {
          const size_t at = layout == Layout::kNchw ? (c * 4 + y) * 4 + x : (y * 4 + x) * 3 + c;
          EXPECT_EQ(to[at], y == 2 && x >= 1 ? 2 : 1) << x << "," << y;
        }
      }
    }
  }
}

// The largest difference between the draws' distribution and `cdf` (Kolmogorov and Smirnov).
double distance(double alpha, const std::function<double(double)>& cdf) {
  const Rng rng(1, "beta");
  std::vector<double> drawn;
  for (uint64_t i = 0; i < kManyMixes; ++i) {
    drawn.push_back(beta(alpha, rng.uniform(2 * i), rng.uniform(2 * i + 1)));
  }
  std::ranges::sort(drawn);
  double most = 0;
  for (size_t i = 0; i < drawn.size(); ++i) {
    most = std::max(most, std::abs((static_cast<double>(i) + 0.5) / kManyMixes - cdf(drawn[i])));
  }
  return most;
}

TEST(Beta, DrawsHaveItsDistribution) {
  const double likely = 1.63 / std::sqrt(kManyMixes);  // 99 % of samples are nearer
  EXPECT_LT(distance(0.5, [](double x) { return std::asin(std::sqrt(x)) * 2 / M_PI; }), likely);
  EXPECT_LT(distance(1, [](double x) { return x; }), likely);
  EXPECT_LT(distance(2, [](double x) { return x * x * (3 - 2 * x); }), likely);
  EXPECT_GT(distance(1.2, [](double x) { return x; }), likely) << "which tells them apart";
}

TEST(Beta, HasItsVarianceAndNoDrawIsOutside) {
  for (const double alpha : {0.01, 0.2, 0.4, 8.0, 1000.0}) {
    const Rng rng(2, "beta");
    double mean = 0, square = 0;
    for (uint64_t i = 0; i < kManyMixes; ++i) {
      const double x = beta(alpha, rng.uniform(2 * i), rng.uniform(2 * i + 1));
      ASSERT_TRUE(x >= 0 && x <= 1) << x;
      mean += x / kManyMixes;
      square += (x - 0.5) * (x - 0.5) / kManyMixes;
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(mean, 0.5, 5 * std::sqrt(variance / kManyMixes)) << alpha;
    EXPECT_NEAR(square, variance, 0.05 * variance) << alpha;
  }
  for (const double v : {0.0, 0.1, 0.25, 0.5}) {
    const double x = beta(0.2, 0, v);
    EXPECT_TRUE(x == 0 || x == 1) << x << " where u is 0, and v " << v;
  }
}

TEST(DrawnMix, IsOfItsSeedItsEpochAndItsRow) {
  const auto mix = [](uint64_t seed, int64_t epoch, int64_t row) {
    const Mix m = drawn_mix({.mixup = 0.2}, seed, epoch, row, 1000, 224);
    EXPECT_FALSE(m.box.has_value());
    return std::pair(m.other, m.share);
  };
  EXPECT_EQ(mix(7, 3, 5), mix(7, 3, 5));
  const std::set<std::pair<int64_t, double>> all = {mix(7, 3, 5), mix(8, 3, 5), mix(7, 4, 5),
                                                    mix(7, 3, 6), mix(7, 5, 3)};
  EXPECT_EQ(all.size(), 5U);
}

TEST(DrawnMix, TakesEachOtherRowAndEachWayAsOften) {
  constexpr int64_t kRows = 10;
  constexpr int kSide = 16;
  std::vector<int64_t> others(kRows);
  std::set<int> left, top;
  int64_t cut = 0;
  for (int64_t row = 0; row < kManyMixes; ++row) {
    const Mix m = drawn_mix({.mixup = 1, .cutmix = 1}, 3, 1, row, kRows, kSide);
    ++others.at(static_cast<size_t>(m.other));
    if (!m.box) continue;
    ++cut;
    left.insert(m.box->left);
    top.insert(m.box->top);
    const double area = m.box->width * m.box->height;
    ASSERT_NEAR(m.share, 1 - area / (kSide * kSide), 1e-12) << "as much as is pasted";
    ASSERT_TRUE(m.box->left + m.box->width <= kSide && m.box->top + m.box->height <= kSide);
    ASSERT_TRUE(m.box->width >= 0 && m.box->height >= 0);
  }
  EXPECT_NEAR(static_cast<double>(cut) / kManyMixes, 0.5, 0.015);
  EXPECT_EQ(left.size(), static_cast<size_t>(kSide));
  EXPECT_EQ(top.size(), static_cast<size_t>(kSide));
  for (const int64_t n : others) EXPECT_NEAR(static_cast<double>(n) * kRows / kManyMixes, 1, 0.1);
  EXPECT_TRUE(drawn_mix({.cutmix = 1}, 3, 1, 0, kRows, kSide).box.has_value());
}

}  // namespace
}  // namespace ndtrain::ndp
