#include "framework/train/gradient_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/core/rng.h"
#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

constexpr int64_t kLine = ParameterSpace::kAlign;

std::vector<float> random_values(int64_t n, double scale) {
  Rng rng(static_cast<uint64_t>(n), "norm");
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) v = static_cast<float>(scale * rng.next_normal());
  return values;
}

double norm_of_parts(std::span<const float> values, std::span<const int64_t> cuts) {
  const auto size = static_cast<int64_t>(values.size());
  std::vector<Subtree> nodes;
  std::vector<double> squares;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    for (const Subtree& node : norm_nodes({cuts[i], cuts[i + 1]}, size)) {
      nodes.push_back(node);
      squares.push_back(sum_of_squares(node, values.data()));
    }
  }
  return norm_of(nodes, squares, norm_leaves(size));
}

TEST(GradientNorm, OfAnyPartsHasTheBitsOfTheWhole) {
  Rng rng(3, "cuts");
  for (const int64_t lines : {1, 2, 3, 7, 8, 37, 300}) {
    const std::vector<float> values = random_values(lines * kLine, 1);
    const std::vector<int64_t> whole = {0, lines * kLine};
    const double expected = norm_of_parts(values, whole);
    for (int trial = 0; trial < 50; ++trial) {
      std::vector<int64_t> cuts = whole;
      for (int i = 0; i < 9; ++i) {
        cuts.push_back(static_cast<int64_t>(rng.next_below(static_cast<uint64_t>(lines) + 1)) *
                       kLine);
      }
      std::ranges::sort(cuts);
      EXPECT_EQ(norm_of_parts(values, cuts), expected) << lines << " lines";
    }
  }
}

TEST(GradientNorm, IsThatOfAReferenceAlsoWhereSquaresLeaveTheRangeOfFloats) {
  for (const double scale : {1e-30, 1.0, 1e30}) {
    const std::vector<float> values = random_values(1000 * kLine, scale);
    long double squares = 0;
    for (const float v : values) squares += static_cast<long double>(v) * v;
    const auto expected = static_cast<double>(std::sqrt(squares));
    const std::vector<int64_t> whole = {0, 1000 * kLine};
    EXPECT_NEAR(norm_of_parts(values, whole) / expected, 1, 1e-14);
  }
}

TEST(GradientNorm, PartsThatAreNotOfWholeLeavesAreRefused) {
  EXPECT_THAT(error_of([] { (void)norm_nodes({8, 32}, 64); }), HasSubstr("elements 8 to 32"));
}

TEST(ClipScale, IsPyTorchs) {
  EXPECT_EQ(clip_scale(10, 5), static_cast<float>(5 / (10 + 1e-6)));
  EXPECT_EQ(clip_scale(2, 5), 1.0F);
  EXPECT_EQ(clip_scale(0, 5), 1.0F);
  EXPECT_LT(clip_scale(1, 1), 1.0F) << "1e-6 is added to the norm";
}

TEST(ClipScale, OfANormThatIsNotFiniteIsAnError) {
  for (const double norm : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(error_of([&] { (void)clip_scale(norm, 1); }), HasSubstr("has diverged"));
  }
}

}  // namespace
}  // namespace ndtrain
