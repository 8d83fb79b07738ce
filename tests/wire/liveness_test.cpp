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

}  // namespace
}  // namespace ndtrain::ndp
