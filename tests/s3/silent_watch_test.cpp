#include "ndp/pipestore/silent_watch.h"

#include <gtest/gtest.h>

#include <thread>

namespace ndtrain::ndp {
namespace {

TEST(SilentWatch, AllIsLookedAtOnceAndThenNothingIsHeard) {
  SilentWatch watch;
  EXPECT_TRUE(watch.wait(std::chrono::hours(1)).all);
  EXPECT_TRUE(watch.wait(std::chrono::milliseconds(1)).empty());
  std::thread other([&] { watch.wake(); });
  EXPECT_TRUE(watch.wait(std::chrono::hours(1)).empty());
  other.join();
}

}  // namespace
}  // namespace ndtrain::ndp
