#include "framework/core/clock.h"

#include <gtest/gtest.h>

namespace ndtrain {
namespace {

using namespace std::chrono_literals;

TEST(Clock, TheSystemClockMovesOnAtLeastAsFarAsItSleeps) {
  Clock& clock = system_clock();
  const auto before = clock.monotonic();
  clock.sleep(3ms);
  EXPECT_GE(clock.monotonic() - before, 3ms);
  clock.sleep(-1s);  // in the past: returns at once
  EXPECT_GT(clock.unix_seconds(), 1'700'000'000);
}

TEST(Clock, TheManualClockMovesOnlyWhenToldToOrSleptOn) {
  ManualClock clock;
  const int64_t start = clock.unix_seconds();
  EXPECT_EQ(clock.monotonic(), 0ns);
  clock.advance(1500ms);
  clock.sleep(700ms);
  EXPECT_EQ(clock.monotonic(), 2200ms);
  EXPECT_EQ(clock.unix_seconds(), start + 2);
}

}  // namespace
}  // namespace ndtrain
