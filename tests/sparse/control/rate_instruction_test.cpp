#include "framework/sparse/control/rate_instruction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

RateInstruction from(int64_t step, int64_t batch = 8) {
  return {.from_step = step, .batch = {batch, 2 * batch}, .drop = 0.9};
}

std::string message_of(RateSchedule& schedule, const RateInstruction& i) {
  try {
    schedule.add(i);
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing";
}

TEST(RateSchedule, PutsInstructionsInForceAtTheirSteps) {
  RateSchedule schedule(from(0, 1));
  schedule.add(from(5, 2));
  schedule.add(from(6, 3));
  schedule.add(from(20, 4));
  for (int64_t step = 0; step < 30; ++step) {
    const int64_t expected = step < 5 ? 1 : step < 6 ? 2 : step < 20 ? 3 : 4;
    EXPECT_EQ(schedule.at(step).batch[0], expected) << step;
  }
  EXPECT_EQ(schedule.last(), from(20, 4));
  for (int64_t step = 0; step < 30; ++step) {
    const int64_t expected = step < 5 ? 1 : step < 6 ? 2 : step < 20 ? 3 : 4;
    EXPECT_EQ(schedule.begin_step(step).batch[0], expected) << step;
  }
  EXPECT_THROW(schedule.at(19), Error);
}

TEST(RateSchedule, RefusesAnInstructionThatComesTooLate) {
  RateSchedule schedule(from(0));
  schedule.begin_step(7);
  EXPECT_THAT(message_of(schedule, from(7)), HasSubstr("too late, step 7 has begun"));
  EXPECT_THAT(message_of(schedule, from(3)), HasSubstr("for step 3: too late"));
  EXPECT_EQ(schedule.last(), from(0));
  EXPECT_EQ(message_of(schedule, from(8, 3)), "nothing");
  EXPECT_EQ(schedule.begin_step(8), from(8, 3));
  EXPECT_THAT(message_of(schedule, from(8)), HasSubstr("there is one for step 8"));
}

TEST(RateSchedule, RefusesWhatNoRankCanDo) {
  EXPECT_THROW(RateSchedule({.batch = {}, .drop = 0.5}), Error);
  RateSchedule schedule(from(0));
  EXPECT_THAT(message_of(schedule, {.from_step = 1, .batch = {1}}), HasSubstr("for 1 ranks of 2"));
  EXPECT_THAT(message_of(schedule, {.from_step = 1, .batch = {1, 0}}), HasSubstr("a batch of 0"));
  for (const double bad : {-0.1, 1.0, double{NAN}}) {
    EXPECT_THAT(message_of(schedule, {.from_step = 1, .batch = {1, 1}, .drop = bad}),
                HasSubstr("a drop of"));
  }
}

}  // namespace
}  // namespace ndtrain
