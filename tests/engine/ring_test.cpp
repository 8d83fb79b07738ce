#include "ndp/engine/ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace ndtrain::ndp {
namespace {

TEST(HandOff, KeepsTheOrderBetweenThreads) {
  HandOff<std::unique_ptr<int>> h;
  std::jthread producer([&] {
    for (int i = 0; i < 1000; ++i) h.push(std::make_unique<int>(i));
    h.close();
  });
  int next = 0;
  while (auto item = h.pop()) EXPECT_EQ(**item, next++);
  EXPECT_EQ(next, 1000);
}

TEST(HandOff, CloseLetsReceiversFinishWhatIsThere) {
  HandOff<int> h;
  h.push(1);
  h.close();
  h.push(2);  // too late
  EXPECT_EQ(h.pop(), 1);
  EXPECT_EQ(h.pop(), std::nullopt);
  EXPECT_EQ(h.pop(), std::nullopt);
}

TEST(HandOff, CloseWakesAWaitingReceiver) {
  HandOff<int> h;
  std::jthread receiver([&] { EXPECT_EQ(h.pop(), std::nullopt); });
  h.close();
}

TEST(HandOff, WhoDoesNotWaitGetsWhatIsReady) {
  HandOff<int> h;
  EXPECT_EQ(h.pop_if_ready(), std::nullopt);
  h.push(1);
  h.push(2);
  EXPECT_EQ(h.pop_if_ready(), 1);
  h.close();
  EXPECT_EQ(h.pop_if_ready(), 2);
  EXPECT_EQ(h.pop_if_ready(), std::nullopt);
}

}  // namespace
}  // namespace ndtrain::ndp
