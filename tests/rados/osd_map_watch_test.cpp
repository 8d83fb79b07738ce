#include "ndp/pipestore/osd_map_watch.h"

#include <gtest/gtest.h>

#include <thread>

#include "framework/testing/memory_fs.h"
#include "ndp/rados/hosted_groups.h"
#include "tests/rados/fake_pool.h"

namespace ndtrain::ndp {
namespace {

constexpr const char* kPhotos = "rados://photos/july";

class OsdMapWatchTest : public ::testing::Test {
 protected:
  DirectoryChanges look() {
    clock_.advance(OsdMapWatch::kBetweenLooks);
    return watch_.wait(std::chrono::hours(1));
  }

  ndtrain::testing::FakeCluster cluster_;
  ManualClock clock_;
  std::unique_ptr<RadosFs> fs_ = with_rados(std::make_unique<MemoryFs>(), clock_,
                                            {.all = false, .osds = {0}}, cluster_.opens());
  OsdMapWatch watch_{*fs_, kPhotos, clock_};
};

TEST_F(OsdMapWatchTest, AllIsLookedAtOnceAndWhenTheMapGivesTheHostOtherGroups) {
  EXPECT_TRUE(watch_.wait(std::chrono::hours(1)).all);
  (void)fs_->list(kPhotos).or_throw();
  EXPECT_TRUE(look().empty());
  cluster_.set_primary(1, 2);  // from one to another, neither here
  EXPECT_TRUE(look().empty());
  cluster_.kill(2);
  EXPECT_TRUE(look().all);
  EXPECT_TRUE(look().all) << "until it was listed";
  (void)fs_->list(kPhotos).or_throw();
  EXPECT_TRUE(look().empty());
  EXPECT_EQ(fs_->gained(kPhotos), 1U);
}

TEST_F(OsdMapWatchTest, WhatWasHandedOverIsLookedAtOnceItIsNoMoreListed) {
  (void)watch_.wait(std::chrono::hours(1));
  (void)fs_->list(kPhotos).or_throw();
  cluster_.kill(0);
  EXPECT_TRUE(look().empty()) << "it is listed for a while";
  clock_.advance(HostedGroups::kHandedOver);
  EXPECT_TRUE(look().all);
}

TEST_F(OsdMapWatchTest, SaysThatNobodyAnswers) {
  (void)watch_.wait(std::chrono::hours(1));
  cluster_.away = Status(Code::kUnavailable, "timed out");
  EXPECT_TRUE(look().empty());
  EXPECT_EQ(watch_.complete().code(), Code::kUnavailable);
}

TEST_F(OsdMapWatchTest, IsWoken) {
  (void)watch_.wait(std::chrono::hours(1));
  (void)look();
  std::thread other([&] { watch_.wake(); });
  EXPECT_TRUE(watch_.wait(std::chrono::hours(1)).empty());
  other.join();
}

}  // namespace
}  // namespace ndtrain::ndp
