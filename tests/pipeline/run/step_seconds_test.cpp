#include "framework/pipeline/run/step_seconds.h"

#include <gtest/gtest.h>

#include "framework/core/clock.h"

namespace ndtrain {
namespace {

class Steps {
 public:
  void alone(int64_t seconds, int64_t drain = 0) {
    steps.begin(1);
    pass(seconds);
    steps.step_done();
    pass(drain);
    steps.drained();
  }
  void pass(int64_t seconds) { clock.advance(std::chrono::seconds(seconds)); }

  ManualClock clock;
  StepSeconds steps{clock};
};

TEST(StepSeconds, OfStepsThatAreDrainedAloneLastUntilThen) {
  Steps s;
  EXPECT_EQ(s.steps.median(), 0);
  s.alone(100);
  EXPECT_EQ(s.steps.median(), 0) << "it has made plans";
  s.alone(3, 1);
  EXPECT_EQ(s.steps.median(), 4);
  s.alone(9);
  s.alone(5);
  EXPECT_EQ(s.steps.median(), 5);
  s.steps.restart();
  EXPECT_EQ(s.steps.median(), 0);
  s.alone(2);
  EXPECT_EQ(s.steps.median(), 2);
}

TEST(StepSeconds, OfStepsThatFollowEachOtherLastFromTheOneBefore) {
  Steps s;
  s.steps.begin(4);
  for (const int64_t seconds : {50, 2, 3, 4}) {
    s.pass(seconds);
    s.steps.step_done();
  }
  s.pass(40);
  s.steps.drained();
  EXPECT_EQ(s.steps.median(), 3);
  s.steps.begin(3);
  for (const int64_t seconds : {50, 7, 8}) {
    s.pass(seconds);
    s.steps.step_done();
  }
  s.steps.drained();
  EXPECT_EQ(s.steps.median(), 4);
}

}  // namespace
}  // namespace ndtrain
