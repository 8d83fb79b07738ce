#include "framework/comm/poll_pause.h"

#include <gtest/gtest.h>

#include <thread>

namespace ndtrain {
namespace {

using namespace std::chrono_literals;

TEST(PollPause, WakingIsRememberedOnce) {
  PollPause pause;
  EXPECT_FALSE(pause.take_woken());
  std::thread([&] { pause.wake(); }).join();
  EXPECT_TRUE(pause.take_woken());
  EXPECT_FALSE(pause.take_woken());
}

TEST(PollPause, PausesWhenNothingHasHappenedForAWhile) {
  PollPause pause;
  std::this_thread::sleep_for(20ms);
  const auto quiet = PollPause::now();
  pause.pause(1h);
  EXPECT_GE(PollPause::now() - quiet, 1ms);
  pause.wake();
  const auto woken = PollPause::now();
  pause.pause(1h);  // whose end is not brought nearer by that
  EXPECT_GE(PollPause::now() - woken, 1ms);
  EXPECT_TRUE(pause.take_woken());
}

}  // namespace
}  // namespace ndtrain
