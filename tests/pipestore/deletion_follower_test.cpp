#include "ndp/pipestore/deletion_follower.h"

#include <gtest/gtest.h>

#include "framework/core/checksummed_json.h"
#include "tests/pipestore/service_fixture.h"

namespace ndtrain::ndp {
namespace {

using DeletionFollowerTest = testing::StoreServiceTest;

TEST_F(DeletionFollowerTest, DeletionsAreAnsweredWhenNothingIsLeftAndNotHeardOfTwice) {
  connect();
  sent_.clear();
  service_.handle({link_, deletions(0, 3)});
  service_.handle({link_, deletions(3, 4)});
  EXPECT_TRUE(sent_.empty());
  lanes_.run();
  EXPECT_EQ(forgotten_.size(), 4U);
  ASSERT_EQ(sent_.size(), 2U);
  EXPECT_EQ(sent_[1].deleted().count(), 4U);
  EXPECT_EQ(known_deletions(), std::pair(uint64_t{4}, uint64_t{104}));
  EXPECT_EQ(verified(fs_.read("state/deletions.json").or_throw()),
            Json({{"count", 4}, {"mark", 104}}));
}

TEST_F(DeletionFollowerTest, DeletionsThatFailAreHeardOfAgainAndWhatCameAfterThemToo) {
  connect();
  full_ = true;
  service_.handle({link_, deletions(0, 3)});
  service_.handle({link_, deletions(3, 4)});
  lanes_.tasks.front()()();
  full_ = false;
  lanes_.tasks.pop_front();
  lanes_.run();
  EXPECT_FALSE(service_.connected()) << "the Tuner is to say it again";
  EXPECT_EQ(known_deletions(), std::pair(uint64_t{0}, uint64_t{0}));
}

}  // namespace
}  // namespace ndtrain::ndp
