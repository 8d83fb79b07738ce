#include "ndp/similarity/near_duplicates.h"

#include <gmock/gmock.h>

#include <bit>

#include "framework/core/rng.h"

namespace ndtrain::ndp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Every third one is a few bits from an earlier one; of every fifth drawn all but 16 bits are 0.
std::vector<uint64_t> drawn_hashes(int n) {
  Rng rng(1, "hashes");
  std::vector<uint64_t> hashes;
  for (int i = 0; i < n; ++i) {
    uint64_t hash = i % 5 == 0 ? rng.next_bits() & 0xFFFF : rng.next_bits();
    if (i % 3 == 2) {
      hash = hashes[rng.next_below(hashes.size())];
      for (uint64_t flips = rng.next_below(6); flips > 0; --flips) {
        hash ^= uint64_t{1} << rng.next_below(64);
      }
    }
    hashes.push_back(hash);
  }
  return hashes;
}

TEST(NearDuplicates, AreAllPairsThatAreNearEnoughOnAnyNumberOfThreads) {
  const std::vector<uint64_t> hashes = drawn_hashes(700);
  ThreadPool one(1), three(3);
  for (const int bits : {0, 2, 5, 20}) {
    std::vector<PhotoPair> expected;
    for (size_t i = 0; i < hashes.size(); ++i) {
      for (size_t j = i + 1; j < hashes.size(); ++j) {
        if (std::popcount(hashes[i] ^ hashes[j]) <= bits) expected.push_back({i, j});
      }
    }
    EXPECT_GE(expected.size(), 30U);
    EXPECT_EQ(pairs_within(hashes, bits, one), expected);
    EXPECT_EQ(pairs_within(hashes, bits, three), expected);
  }
  EXPECT_THAT(pairs_within({}, 3, one), IsEmpty());
}

// Also where many are the same in all parts but one, and where whole hashes are.
TEST(NearDuplicates, AreTheSameGroupsByParts) {
  const std::vector<uint64_t> hashes = drawn_hashes(900);
  ThreadPool one(1), three(3);
  for (const int bits : {0, 1, 3, 7, 8, 20}) {
    const auto expected = connected(hashes.size(), pairs_within(hashes, bits, one));
    EXPECT_GE(expected.size(), 1U);
    EXPECT_EQ(groups_within(hashes, bits, one), expected) << bits;
    EXPECT_EQ(groups_within(hashes, bits, three), expected) << bits;
  }
  EXPECT_THAT(groups_within({}, 3, one), IsEmpty());
}

// Of pairs there would be twenty thousand million.
TEST(NearDuplicates, OfManyBlankPhotosAreOneGroup) {
  ThreadPool one(1);
  const auto groups = groups_within(std::vector<uint64_t>(200'000), 3, one);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].size(), 200'000U);
}

// By way of those of one bit.
TEST(NearDuplicates, OfManyNearPhotosAreOneGroup) {
  std::vector<uint64_t> hashes;
  for (int a = 0; a < 64; ++a) {
    for (int b = a; b < 64; ++b) hashes.push_back(uint64_t{1} << a | uint64_t{1} << b);
  }
  ThreadPool three(3);
  const auto groups = groups_within(hashes, 3, three);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].size(), hashes.size());
}

TEST(NearDuplicates, AreOneGroupByWayOfOthers) {
  EXPECT_THAT(connected(8, {{1, 2}, {5, 7}, {2, 6}}),
              ElementsAre(ElementsAre(1, 2, 6), ElementsAre(5, 7)));
  EXPECT_THAT(connected(8, {{3, 7}, {6, 7}, {0, 6}, {0, 3}}), ElementsAre(ElementsAre(0, 3, 6, 7)));
  EXPECT_THAT(connected(3, {}), IsEmpty());
}

}  // namespace
}  // namespace ndtrain::ndp
