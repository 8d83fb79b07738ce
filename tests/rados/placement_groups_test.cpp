#include "ndp/rados/placement_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace ndtrain::ndp {
namespace {

// As `ceph osd map` says of these names.
TEST(PlacementGroups, HashesAreCephs) {
  EXPECT_EQ(rjenkins("qwerty-0"), 0x4fe8a1feU);
  EXPECT_EQ(placement_group("", "qwerty-0", 32), 0x1eU);
  EXPECT_EQ(rjenkins("july\037x"), 0x9c5625d2U);
  EXPECT_EQ(placement_group("july", "x", 32), 0x12U);
  EXPECT_EQ(rjenkins("july\037rose/5349248997_4b23a7344d_n.jpg"), 0xb5a09f30U);
  EXPECT_EQ(placement_group("july", "rose/5349248997_4b23a7344d_n.jpg", 32), 0x10U);
}

TEST(PlacementGroups, OfANumberThatIsNoPowerOfTwoTheLastGroupsAreLarger) {
  std::vector<int> objects(12);
  for (int i = 0; i < 16000; ++i) ++objects[placement_group("n", std::to_string(i), 12)];
  for (uint32_t g = 0; g < 12; ++g) {
    const int expected = g >= 4 && g < 8 ? 2000 : 1000;  // 4 to 7 have what 12 to 15 would have
    EXPECT_NEAR(objects[g], expected, 200) << g;
  }
}

TEST(PlacementGroups, ANamespaceIsPartOfWhatIsHashed) {
  std::set<uint32_t> groups;
  for (const char* const nspace : {"", "a", "b", "c", "d"}) {
    groups.insert(placement_group(nspace, "x.jpg", 1U << 16));
  }
  EXPECT_EQ(groups.size(), 5U);
  EXPECT_EQ(placement_group("a", "x.jpg", 64), placement_group("", "a\037x.jpg", 64));
}

TEST(PlacementGroups, EachGroupHasANameThatIsInIt) {
  for (const uint32_t groups : {1U, 2U, 7U, 64U, 100U}) {
    const std::vector<std::string> names = names_of_groups(groups);
    ASSERT_EQ(names.size(), groups);
    for (uint32_t g = 0; g < groups; ++g) EXPECT_EQ(placement_group("", names[g], groups), g);
  }
}

TEST(PlacementGroups, EachSliceOfAListingIsOfOneGroup) {
  EXPECT_THAT(slices_of_group(0, 1), ::testing::ElementsAre(0U));
  EXPECT_THAT(slices_of_group(1, 8), ::testing::ElementsAre(4U));      // 001, reversed 100
  EXPECT_THAT(slices_of_group(3, 8), ::testing::ElementsAre(6U));      // 011, reversed 110
  EXPECT_THAT(slices_of_group(1, 5), ::testing::ElementsAre(4U, 5U));  // 001 and 101
  for (const uint32_t groups : {1U, 5U, 12U, 64U, 100U}) {
    std::multiset<uint32_t> slices;
    for (uint32_t g = 0; g < groups; ++g) {
      for (const uint32_t slice : slices_of_group(g, groups)) slices.insert(slice);
    }
    EXPECT_EQ(slices.size(), listing_slices(groups));
    EXPECT_EQ(std::set<uint32_t>(slices.begin(), slices.end()).size(), listing_slices(groups));
  }
}

}  // namespace
}  // namespace ndtrain::ndp
