#include "framework/core/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

using Block = std::array<uint32_t, 4>;

// kat_vectors of the Random123 distribution, "philox4x32 10".
TEST(Rng, GivesTheKnownAnswersOfPhilox) {
  EXPECT_EQ(Rng(0, 0).block(0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Rng(UINT64_MAX, UINT64_MAX).block(UINT64_MAX),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Rng(0x299f31d0a4093822, 0x0370734413198a2e).block(0x85a308d3243f6a88),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, ANumberDependsOnSeedStreamAndIndexAlone) {
  Rng sequential(7, 3);
  const Rng direct(7, 3);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(sequential.next_bits(), direct.bits(i));
  EXPECT_NE(direct.bits(0), Rng(8, 3).bits(0));
  EXPECT_NE(direct.bits(0), Rng(7, 4).bits(0));
  EXPECT_NE(direct.bits(0), direct.bits(1));
}

TEST(Rng, PurposesAreStreamsOfTheirOwn) {
  EXPECT_EQ(Rng(1, "shuffle").bits(5), Rng(1, "shuffle").bits(5));
  EXPECT_NE(Rng(1, "shuffle").bits(5), Rng(1, "dropout").bits(5));
  EXPECT_NE(Rng(1, "shuffle").bits(5), Rng(2, "shuffle").bits(5));
}

TEST(Rng, UniformNumbersFillTheUnitInterval) {
  const Rng rng(11);
  constexpr int n = 100'000;
  double sum = 0, squares = 0;
  std::array<int, 10> bins = {};
  for (uint64_t i = 0; i < n; ++i) {
    const double u = rng.uniform(i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
    ++bins[static_cast<size_t>(u * 10)];
  }
  EXPECT_NEAR(sum / n, 0.5, 5 * 0.2887 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1.0 / 3, 0.005);
  for (int b : bins) EXPECT_NEAR(b, n / 10, 5 * std::sqrt(n * 0.09));
}

TEST(Rng, NormalNumbersHaveTheMomentsOfTheNormalDistribution) {
  const Rng rng(12);
  constexpr int n = 200'000;
  std::array<double, 5> moments = {};
  int within_one = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const double x = rng.normal(i);
    ASSERT_TRUE(std::isfinite(x));
    for (size_t k = 1; k <= 4; ++k) moments[k] += std::pow(x, k) / n;
    within_one += std::abs(x) < 1;
  }
  EXPECT_NEAR(moments[1], 0, 0.012);
  EXPECT_NEAR(moments[2], 1, 0.016);
  EXPECT_NEAR(moments[3], 0, 0.045);
  EXPECT_NEAR(moments[4], 3, 0.12);
  EXPECT_NEAR(within_one / double{n}, 0.682689, 0.006);
}

TEST(Rng, NumbersBelowABoundAreUniform) {
  Rng rng(13);
  std::array<int, 7> counts = {};
  constexpr int n = 70'000;
  for (int i = 0; i < n; ++i) ++counts[rng.next_below(7)];
  for (int c : counts) EXPECT_NEAR(c, n / 7, 5 * std::sqrt(n / 7.0));
  EXPECT_EQ(rng.next_below(1), 0u);
  EXPECT_THROW(rng.next_below(0), Error);
}

TEST(Rng, ABoundAboveHalfTheRangeIsWithoutBias) {
  // Without refusal a third of the numbers would be twice as likely as the others.
  Rng rng(14);
  const uint64_t bound = UINT64_MAX / 3 * 2;
  constexpr int n = 30'000;
  int lower = 0;
  for (int i = 0; i < n; ++i) {
    const uint64_t x = rng.next_below(bound);
    ASSERT_LT(x, bound);
    lower += x < bound / 2;
  }
  EXPECT_NEAR(lower, n / 2, 5 * std::sqrt(n * 0.25));
}

TEST(Permutation, HoldsEveryNumberOnce) {
  for (int64_t n : {0, 1, 2, 1000}) {
    std::vector<int64_t> p = permutation(n, Rng(5));
    std::sort(p.begin(), p.end());
    std::vector<int64_t> identity(static_cast<size_t>(n));
    std::iota(identity.begin(), identity.end(), 0);
    EXPECT_EQ(p, identity);
  }
  EXPECT_THROW(permutation(-1, Rng(5)), Error);
}

TEST(Permutation, IsAFunctionOfSeedAndStream) {
  EXPECT_EQ(permutation(100, Rng(5, "shuffle")), permutation(100, Rng(5, "shuffle")));
  EXPECT_NE(permutation(100, Rng(5, "shuffle")), permutation(100, Rng(6, "shuffle")));
}

TEST(Permutation, EveryOrderIsEquallyLikely) {
  std::map<std::vector<int64_t>, int> counts;
  constexpr int n = 24'000;
  for (uint64_t seed = 0; seed < n; ++seed) ++counts[permutation(4, Rng(seed))];
  EXPECT_EQ(counts.size(), 24u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, n / 24, 5 * std::sqrt(n / 24.0));
}

}  // namespace
}  // namespace ndtrain
