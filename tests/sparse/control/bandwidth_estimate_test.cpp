#include "framework/sparse/control/bandwidth_estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

BandwidthEstimate at_100(double jump = 1.5) {
  BandwidthEstimate b(jump);
  b.begin({.receive_mbps = 100, .wait_part = 0}, 50, 1);
  return b;
}

TEST(BandwidthEstimate, BeginsWithThePartThatGetsThroughWhereRanksWait) {
  BandwidthEstimate b(1.5);
  EXPECT_EQ(b.mbps(), 0);
  b.begin({.receive_mbps = 100, .wait_part = 0.5}, 300, 3);
  EXPECT_EQ(b.mbps(), 150);
  b.begin({.receive_mbps = 100, .wait_part = 0.05}, 300, 3);
  EXPECT_EQ(b.mbps(), 285);
}

TEST(BandwidthEstimate, BeginsWithAFullLinkWhereTheyDoNot) {
  BandwidthEstimate b(1.5);
  b.begin({.receive_mbps = 100, .wait_part = 0}, 50, 3);
  EXPECT_EQ(b.mbps(), 300);
  b.begin({.receive_mbps = 100, .wait_part = 0}, 400, 3);
  EXPECT_EQ(b.mbps(), 400);
  b.begin({}, 50, 3);
  EXPECT_EQ(b.mbps(), 50);
  // They wait 1 of 100 ms with 20 Mb/s: 5 of 100 with 104.
  b.begin({.receive_mbps = 100, .wait_part = 0.01}, 20, 3);
  EXPECT_NEAR(b.mbps(), 20 * (5.0 / 95) / (1.0 / 99), 1e-9);
}

TEST(BandwidthEstimate, RisesByATenthWhereRanksDoNotWait) {
  BandwidthEstimate b = at_100();
  b.update({.receive_mbps = 120, .wait_part = 0.0499});
  EXPECT_DOUBLE_EQ(b.mbps(), (90 + 12) * 1.1);
}

TEST(BandwidthEstimate, FallsByWhatRanksWaitAndNeverByMoreThanAQuarter) {
  BandwidthEstimate b = at_100();
  b.update({.receive_mbps = 80, .wait_part = 0.05});
  EXPECT_DOUBLE_EQ(b.mbps(), (90 + 8) * 0.95);
  b = at_100();
  b.update({.receive_mbps = 80, .wait_part = 0.2});
  EXPECT_DOUBLE_EQ(b.mbps(), (90 + 8) * 0.8);
  b = at_100();
  b.update({.receive_mbps = 80, .wait_part = 0.9});
  EXPECT_DOUBLE_EQ(b.mbps(), (90 + 8) * 0.75);
}

TEST(BandwidthEstimate, WhatWasNotMeasuredChangesNothing) {
  BandwidthEstimate b = at_100();
  b.update({});
  EXPECT_EQ(b.mbps(), 100);
  b.update({.receive_mbps = 120});
  EXPECT_DOUBLE_EQ(b.mbps(), 102);
  b = at_100();
  b.update({.wait_part = 0.1});
  EXPECT_DOUBLE_EQ(b.mbps(), 90);
}

TEST(BandwidthEstimate, FollowsALinkThatIsAnotherOne) {
  BandwidthEstimate b = at_100();
  EXPECT_THAT(b.update({.receive_mbps = 20, .wait_part = 0.6}), HasSubstr("100 x 0.200"));
  EXPECT_DOUBLE_EQ(b.mbps(), 20);
  b.update({.receive_mbps = 100, .wait_part = 0});
  EXPECT_DOUBLE_EQ(b.mbps(), 100);
  // Not where ranks' waits say otherwise: fewer Mb/s of smaller messages are no slower link.
  b.update({.receive_mbps = 20, .wait_part = 0});
  EXPECT_DOUBLE_EQ(b.mbps(), (90 + 2) * 1.1);
  b = at_100();
  b.update({.receive_mbps = 300, .wait_part = 0.1});
  EXPECT_DOUBLE_EQ(b.mbps(), (90 + 30) * 0.9);
  // What it was at is remembered until then.
  b.update({.receive_mbps = 100, .wait_part = 0});
  EXPECT_DOUBLE_EQ(b.mbps(), (0.9 * 108 + 10) * 1.1);
}

TEST(BandwidthEstimate, FollowsNoLinkWhereItIsToldSo) {
  BandwidthEstimate b = at_100(INFINITY);
  b.update({.receive_mbps = 20, .wait_part = 0.6});
  EXPECT_DOUBLE_EQ(b.mbps(), (90 + 2) * 0.75);
  b.update({.receive_mbps = 500, .wait_part = 0});
  EXPECT_DOUBLE_EQ(b.mbps(), (0.9 * 69 + 50) * 1.1);
}

TEST(BandwidthEstimate, StaysANumberWhateverItIsTold) {
  BandwidthEstimate b(INFINITY);
  b.begin({}, 1e-9, 1);
  EXPECT_EQ(b.mbps(), BandwidthEstimate::kLeastMbps);
  for (int i = 0; i < 10'000; ++i) b.update({.wait_part = 0});
  EXPECT_EQ(b.mbps(), BandwidthEstimate::kMostMbps);
  for (int i = 0; i < 10'000; ++i) b.update({.wait_part = 1});
  EXPECT_EQ(b.mbps(), BandwidthEstimate::kLeastMbps);
}

TEST(BandwidthEstimate, RefusesWhatIsNoJumpAndWhatHasNotBegun) {
  for (const double bad : {1.0, 0.5, double{NAN}}) EXPECT_THROW(BandwidthEstimate{bad}, Error);
  BandwidthEstimate b(2);
  EXPECT_THROW(b.update({.receive_mbps = 1}), Error);
}

}  // namespace
}  // namespace ndtrain
