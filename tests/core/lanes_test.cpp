#include "framework/core/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <semaphore>

#include "framework/core/error.h"
#include "framework/core/fsync.h"

namespace ndtrain {
namespace {

using ::testing::ElementsAre;

TEST(ThreadLanes, TasksOfALaneRunInOrderElsewhereAndWhatTheyReturnIsCalledHere) {
  std::counting_semaphore<> woken(0);
  ThreadLanes lanes(2, [&] { woken.release(); });
  const auto here = std::this_thread::get_id();
  std::vector<int> ran, called;
  for (int i = 0; i < 3; ++i) {
    lanes.start(1, [&, i] {
      EXPECT_NE(std::this_thread::get_id(), here);
      ran.push_back(i);
      return [&, i] { called.push_back(i); };
    });
  }
  for (int i = 0; i < 3; ++i) woken.acquire();
  for (const Continuation& after : lanes.take_finished()) after();
  EXPECT_THAT(ran, ElementsAre(0, 1, 2));
  EXPECT_THAT(called, ElementsAre(0, 1, 2));
}

TEST(ThreadLanes, ALaneWaitsForNoOther) {
  std::binary_semaphore go(0), done(0);
  ThreadLanes lanes(2, [] {});
  lanes.start(0, [&] {
    go.acquire();
    done.release();
    return Continuation();
  });
  lanes.start(1, [&] {
    go.release();
    return Continuation();
  });
  done.acquire();
}

TEST(ThreadLanes, SayHowManyTasksWaitOrRun) {
  std::binary_semaphore go(0), begun(0);
  std::counting_semaphore<> woken(0);
  ThreadLanes lanes(2, [&] { woken.release(); });
  EXPECT_THAT(lanes.lengths(), ElementsAre(0, 0));
  for (int i = 0; i < 3; ++i) {
    lanes.start(1, [&, i] {
      if (i == 0) {
        begun.release();
        go.acquire();
      }
      return Continuation();
    });
  }
  begun.acquire();
  EXPECT_THAT(lanes.lengths(), ElementsAre(0, 3));
  go.release();
  for (int i = 0; i < 3; ++i) woken.acquire();
  EXPECT_THAT(lanes.lengths(), ElementsAre(0, 0));
}

TEST(ThreadLanes, WhatATaskThrowsReachesTheRole) {
  std::binary_semaphore woken(0);
  ThreadLanes lanes(1, [&] { woken.release(); });
  lanes.start(0, []() -> Continuation { throw Error("the disk"); });
  woken.acquire();
  EXPECT_THROW(lanes.take_finished(), Error);
  EXPECT_TRUE(lanes.take_finished().empty());
}

// The role stops and asks for nothing any more.
TEST(ThreadLanesDeathTest, AnFsyncThatFailsWhileTheRoleStopsEndsTheProcess) {
  const auto stop = [] {
    std::binary_semaphore begun(0), over(0);
    ThreadLanes lanes(1, [] {});
    lanes.start(0, [&]() -> Continuation {
      begun.release();
      over.acquire();
      fsync_failed("labels");
    });
    begun.acquire();
    over.release();
  };
  EXPECT_EXIT(stop(), ::testing::ExitedWithCode(kFsyncFailedStatus), "fsync.*labels");
}

}  // namespace
}  // namespace ndtrain
