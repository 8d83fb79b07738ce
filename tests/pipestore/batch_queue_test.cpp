#include "ndp/pipestore/batch_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ndp/http/rate_limiter.h"

namespace ndtrain::ndp {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Item {
  int model = 0;
  int number = 0;
};

std::vector<int> numbers(const std::vector<Item>& items) {
  std::vector<int> all;
  for (const Item& i : items) all.push_back(i.number);
  return all;
}

TEST(BatchQueue, WaitsForOthersButNotLong) {
  BatchQueue<Item> queue(4, milliseconds(5));
  queue.add(milliseconds(10), {1, 1});
  queue.add(milliseconds(12), {1, 2});
  EXPECT_THAT(queue.take(milliseconds(14), true), IsEmpty());
  EXPECT_EQ(queue.next(), milliseconds(15));
  EXPECT_THAT(numbers(queue.take(milliseconds(15), true)), ElementsAre(1, 2));
  EXPECT_EQ(queue.next(), BatchQueue<Item>::Time::max());
}

TEST(BatchQueue, DoesNotWaitWhenItIsFullOrNothingComes) {
  BatchQueue<Item> queue(2, milliseconds(5));
  for (int i = 1; i <= 3; ++i) queue.add(milliseconds(0), {1, i});
  EXPECT_THAT(numbers(queue.take(milliseconds(0), true)), ElementsAre(1, 2));
  EXPECT_THAT(queue.take(milliseconds(0), true), IsEmpty());
  EXPECT_THAT(numbers(queue.take(milliseconds(0), false)), ElementsAre(3));
}

TEST(BatchQueue, ABatchIsAPowerOfTwoAndTheRestFollowsAtOnce) {
  BatchQueue<Item> queue(32, milliseconds(5));
  for (int i = 1; i <= 7; ++i) queue.add(milliseconds(0), {1, i});
  EXPECT_THAT(numbers(queue.take(milliseconds(5), true)), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(numbers(queue.take(milliseconds(5), true)), ElementsAre(5, 6));
  EXPECT_THAT(numbers(queue.take(milliseconds(5), true)), ElementsAre(7));
}

TEST(BatchQueue, ABatchIsOfOneModelAndThoseOfOthersAreNoHurry) {
  BatchQueue<Item> queue(4, milliseconds(5));
  queue.add(milliseconds(0), {1, 1});
  queue.add(milliseconds(0), {2, 2});
  queue.add(milliseconds(0), {1, 3});
  EXPECT_THAT(queue.take(milliseconds(0), true), IsEmpty());
  EXPECT_THAT(numbers(queue.take(milliseconds(5), true)), ElementsAre(1, 3));
  EXPECT_THAT(numbers(queue.take(milliseconds(5), true)), ElementsAre(2));
}

TEST(RateLimiter, IsOfEachClientAndRefills) {
  RateLimiter quota(2);
  EXPECT_TRUE(quota.take(milliseconds(0), "a"));
  EXPECT_TRUE(quota.take(milliseconds(0), "a"));
  EXPECT_FALSE(quota.take(milliseconds(0), "a"));
  EXPECT_TRUE(quota.take(milliseconds(0), "b"));
  EXPECT_FALSE(quota.take(milliseconds(499), "a"));
  EXPECT_TRUE(quota.take(milliseconds(1000), "a"));
}

TEST(RateLimiter, OfNothingIsNone) {
  RateLimiter quota(0);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(quota.take(milliseconds(0), "a"));
}

TEST(RateLimiter, RemembersOnlyThoseWhoAskedLately) {
  RateLimiter quota(1);
  for (int i = 0; i < 100'000; ++i) {
    EXPECT_TRUE(quota.take(milliseconds(i), "10.0.0." + std::to_string(i)));
  }
  EXPECT_LE(quota.clients(), 10'000U);
}

}  // namespace
}  // namespace ndtrain::ndp
