#include "ndp/wire/liveness.h"

#include <gtest/gtest.h>

namespace ndtrain::ndp {
namespace {

using std::chrono::seconds;

TEST(Liveness, APingIsDueAfterAHeartbeatOfOwnSilence) {
  Liveness l(seconds(5), seconds(100));
  EXPECT_FALSE(l.ping_due(seconds(104)));
  EXPECT_TRUE(l.ping_due(seconds(105)));
  l.said(seconds(105));
  EXPECT_FALSE(l.ping_due(seconds(109)));
  EXPECT_EQ(l.next(), seconds(110));
}

TEST(Liveness, ThreeSilentHeartbeatsAreTheEnd) {
  Liveness l(seconds(5), seconds(100));
  l.heard(seconds(103));
  EXPECT_FALSE(l.silent(seconds(107)));
  EXPECT_TRUE(l.silent(seconds(108)));
  EXPECT_FALSE(l.dead(seconds(117)));
  EXPECT_TRUE(l.dead(seconds(118)));
  l.said(seconds(117));
  EXPECT_EQ(l.next(), seconds(118));
}

TEST(Liveness, WhoLooksLateWaitsLonger) {
  Liveness l(seconds(5), seconds(100));
  for (int s = 105; s <= 110; s += 5) l.look(seconds(s));
  EXPECT_EQ(l.dead_at(), seconds(115)) << "in time";
  l.look(seconds(135));  // 20 s too late
  EXPECT_FALSE(l.dead(seconds(134)));
  EXPECT_EQ(l.dead_at(), seconds(135));
  l.look(seconds(200));
  EXPECT_EQ(l.dead_at(), seconds(195));
  l.heard(seconds(300));
  l.look(seconds(300));
  EXPECT_EQ(l.dead_at(), seconds(315)) << "nobody is heard in the future";
}

}  // namespace
}  // namespace ndtrain::ndp
