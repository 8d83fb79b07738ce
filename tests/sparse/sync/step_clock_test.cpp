#include "framework/sparse/sync/step_clock.h"

#include <gtest/gtest.h>

namespace ndtrain {
namespace {

using std::chrono::milliseconds;

TEST(StepClock, TellsOfTheStepBefore) {
  ManualClock time;
  StepClock clock(&time);
  EXPECT_EQ(clock.last().backward_ms, 0);
  clock.begin(0.5);
  time.advance(milliseconds(10));
  clock.forward_done(0.504);
  time.advance(milliseconds(25));
  clock.computed(0.504);
  time.advance(milliseconds(40));  // it waits, and does something else
  EXPECT_EQ(clock.last().backward_ms, 0) << "the step is not over";
  clock.begin(0.53);
  EXPECT_NEAR(clock.last().forward_ms, 6, 1e-9);
  EXPECT_NEAR(clock.last().in_forward_gap_ms, 4, 1e-9);
  EXPECT_EQ(clock.last().backward_ms, 25);
  EXPECT_NEAR(clock.last().backward_forward_gap_ms, 26, 1e-9);
}

TEST(StepClock, TakesAThirdForAForwardPassThatNobodyTimes) {
  ManualClock time;
  StepClock clock(&time);
  clock.begin(0);
  time.advance(milliseconds(30));
  clock.computed(0.003);  // of statistics, within
  clock.begin(0.003);
  EXPECT_NEAR(clock.last().forward_ms, 9, 1e-9);
  EXPECT_NEAR(clock.last().backward_ms, 18, 1e-9);
}

TEST(StepClock, AgreeingIsNoWaitForGradients) {
  ManualClock time;
  StepClock clock(&time);
  double waited = 0.1, agreeing = 0.1;
  clock.begin(waited, agreeing);
  for (const double gradients : {0.0, 0.02}) {
    time.advance(milliseconds(30));
    clock.computed(waited);
    waited += 0.3 + gradients;
    agreeing += 0.3;
    time.advance(milliseconds(300));
    clock.begin(waited, agreeing);
    EXPECT_GE(clock.last().backward_forward_gap_ms, 0);
    EXPECT_NEAR(clock.last().backward_forward_gap_ms, 1e3 * gradients, 1e-9);
    EXPECT_NEAR(clock.last().backward_ms, 20, 1e-9);
  }
}

TEST(StepClock, AStepThatIsNotComputedIsNone) {
  ManualClock time;
  StepClock clock(&time);
  clock.begin(0);
  time.advance(milliseconds(30));
  clock.computed(0);
  clock.begin(0);
  time.advance(milliseconds(7));
  clock.begin(0);
  EXPECT_NEAR(clock.last().forward_ms, 10, 1e-9) << "that of the last that was";
}

}  // namespace
}  // namespace ndtrain
