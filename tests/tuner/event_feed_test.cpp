#include "tuner/http/event_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::HasSubstr;

class EventFeedTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  EventFeed feed_{clock_};
};

TEST_F(EventFeedTest, WhoComesHearsTheNewestOfEachAndThenWhatChanges) {
  feed_.put("jobs", "[1]");
  feed_.put("jobs", "[2]");
  feed_.put("stores", "[]");
  HttpResponse r = feed_.follow();
  EXPECT_EQ(r.type, "text/event-stream");
  EXPECT_EQ(r.pieces(), "event: jobs\ndata: [2]\n\nevent: stores\ndata: []\n\n");
  feed_.put("jobs", "[2]");
  EXPECT_EQ(r.pieces(), "") << "nothing has changed";
  feed_.put("jobs", "[3]");
  feed_.put("jobs", "[4]");
  EXPECT_EQ(r.pieces(), "event: jobs\ndata: [4]\n\n") << "a slow one misses what was between";
}

TEST_F(EventFeedTest, IsFollowedWhileAnAnswerIsUnderway) {
  EXPECT_FALSE(feed_.followed());
  HttpResponse r = feed_.follow();
  EXPECT_TRUE(feed_.followed());
  r.pieces = nullptr;
  EXPECT_FALSE(feed_.followed());
}

TEST_F(EventFeedTest, RefusesMoreThanItTakesAndTakesAnotherWhenOneHasGone) {
  std::vector<HttpResponse> all;
  for (int i = 0; i < EventFeed::kStreams; ++i) all.push_back(feed_.follow());
  EXPECT_EQ(all.back().status, 200);
  const HttpResponse refused = feed_.follow();
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("16"));
  EXPECT_TRUE(refused.headers.contains("Retry-After"));
  all.pop_back();
  EXPECT_EQ(feed_.follow().status, 200);
}

TEST_F(EventFeedTest, SaysNothingInACommentNowAndThen) {
  HttpResponse r = feed_.follow();
  EXPECT_EQ(r.pieces(), "");
  clock_.advance(EventFeed::kSilence);
  EXPECT_EQ(r.pieces(), ":\n\n");
  EXPECT_EQ(r.pieces(), "");
}

TEST_F(EventFeedTest, EndsAStreamInTheEnd) {
  HttpResponse r = feed_.follow();
  feed_.put("jobs", "[]");
  clock_.advance(EventFeed::kLife - std::chrono::seconds(1));
  EXPECT_THAT(*r.pieces(), HasSubstr("jobs"));
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(r.pieces(), std::nullopt);
}

}  // namespace
}  // namespace ndtrain::tuner
