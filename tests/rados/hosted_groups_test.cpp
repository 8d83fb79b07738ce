#include "ndp/rados/hosted_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ndtrain::ndp {
namespace {

using std::chrono::minutes;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

OsdMap map_of(std::vector<int> primary) {
  return {.epoch = 1, .primary = std::move(primary), .at_addresses = {}};
}

TEST(HostedGroups, AreThoseOfItsOsds) {
  HostedGroups groups;
  EXPECT_FALSE(groups.is_known());
  groups.take(map_of({0, 1, 2, -1, 1}), {1, 4}, minutes(0));
  EXPECT_THAT(groups.listed(minutes(0)), ElementsAre(1U, 4U));
  EXPECT_EQ(groups.gained(), 0U);
}

TEST(HostedGroups, ThoseThatOthersHaveByNowAreListedForAWhile) {
  HostedGroups groups;
  groups.take(map_of({0, 1, 0}), {0}, minutes(0));
  groups.take(map_of({0, 1, 1}), {0}, minutes(5));
  EXPECT_FALSE(groups.owns(2));
  EXPECT_THAT(groups.listed(minutes(14)), ElementsAre(0U, 2U));
  EXPECT_THAT(groups.listed(minutes(15)), ElementsAre(0U));
  EXPECT_EQ(groups.gained(), 0U);
}

TEST(HostedGroups, CountHowOftenSomeCame) {
  HostedGroups groups;
  groups.take(map_of({0, 1, 2}), {0}, minutes(0));
  groups.take(map_of({0, 0, 0}), {0}, minutes(1));
  EXPECT_EQ(groups.gained(), 1U);
  groups.take(map_of({0, 1, 2}), {0}, minutes(2));
  groups.take(map_of({0, 0, 2}), {0}, minutes(3));
  EXPECT_EQ(groups.gained(), 1U) << "it listed it all the time";
  groups.take(map_of({0, 0, 2}), {0}, minutes(20));
  groups.take(map_of({0, 0, 0}), {0}, minutes(21));
  EXPECT_EQ(groups.gained(), 2U);
}

TEST(HostedGroups, OsdsThatComeToTheHostBringTheirGroups) {
  HostedGroups groups;
  groups.take(map_of({0, 1}), {}, minutes(0));
  EXPECT_THAT(groups.listed(minutes(0)), IsEmpty());
  groups.take(map_of({0, 1}), {1}, minutes(1));
  EXPECT_THAT(groups.listed(minutes(1)), ElementsAre(1U));
  EXPECT_EQ(groups.gained(), 1U);
}

// The same objects are in groups of other numbers then.
TEST(HostedGroups, OfAPoolWhoseGroupsAreDividedAllIsNew) {
  HostedGroups groups;
  groups.take(map_of({0, 1}), {0}, minutes(0));
  groups.take(map_of({0, 1, 1, 0}), {0}, minutes(1));
  EXPECT_THAT(groups.listed(minutes(1)), ElementsAre(0U, 3U));
  EXPECT_EQ(groups.gained(), 1U);
}

}  // namespace
}  // namespace ndtrain::ndp
