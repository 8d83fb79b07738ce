#include "framework/parallel/measured_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/comm/rank_threads.h"
#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

// Of slots fc and conv, on two ranks of which one is slower in one of them.
const StepTimes kFirst{.steps = 5,
                       .forward_s = {1, 20},
                       .backward_s = {3, 4},
                       .optimizer_s = 0.5,
                       .step_s = 40,
                       .exposed_s = 11.5};
const StepTimes kSecond{.steps = 4,
                        .forward_s = {10, 2},
                        .backward_s = {5, 1},
                        .optimizer_s = 0.25,
                        .step_s = 40,
                        .exposed_s = 21.75};
const StepTimes kNoTimes{.forward_s = {0, 0}, .backward_s = {0, 0}};

CostProfile two_layers() { return {.ranks = 3, .layers = {{.elements = 400}, {.elements = 100}}}; }

TEST(MeasuredCosts, OfALayerAreThoseOfTheRankWhereItTakesLongest) {
  CostProfile costs = two_layers();
  ASSERT_TRUE(set_slowest_times(std::vector{kFirst, kNoTimes, kSecond}, costs));
  EXPECT_EQ(costs.layers[0].forward_s, 20) << "conv is in front, and slot 1";
  EXPECT_EQ(costs.layers[0].backward_s, 4);
  EXPECT_EQ(costs.layers[1].forward_s, 10);
  EXPECT_EQ(costs.layers[1].backward_s, 5);
  EXPECT_EQ(costs.optimizer_s_per_element, 0.5 / 500);
  EXPECT_EQ(slowest_rank(std::vector{kSecond, kNoTimes, kFirst}), 2);
}

TEST(MeasuredCosts, OfNoStepsChangeNothing) {
  CostProfile costs = two_layers();
  costs.layers[0].forward_s = 7;
  EXPECT_FALSE(set_slowest_times(std::vector{kNoTimes, kNoTimes}, costs));
  EXPECT_EQ(costs.layers[0].forward_s, 7);
  EXPECT_EQ(slowest_rank(std::vector{kNoTimes, kNoTimes}), -1);
}

TEST(MeasuredCosts, AreGatheredFromAllRanksBitByBit) {
  comm_tests::run_ranks(3, [](Communicator& comm) {
    StepTimes ours = comm.rank() == 1 ? kSecond : kFirst;
    ours.forward_s[0] = 0.1 * (comm.rank() + 1);
    const std::vector<StepTimes> all = gather_times(comm, ours);
    ASSERT_EQ(all.size(), 3U);
    for (int r = 0; r < 3; ++r) {
      const StepTimes& t = all[static_cast<size_t>(r)];
      EXPECT_EQ(t.forward_s[0], 0.1 * (r + 1));
      EXPECT_EQ(t.steps, r == 1 ? 4 : 5);
      EXPECT_EQ(t.backward_s, (r == 1 ? kSecond : kFirst).backward_s);
      EXPECT_EQ(t.optimizer_s, r == 1 ? 0.25 : 0.5);
      EXPECT_EQ(t.exposed_s, r == 1 ? 21.75 : 11.5);
      EXPECT_EQ(t.step_s, 40);
    }
  });
}

TEST(MeasuredCosts, OfOtherParametersAreAnError) {
  comm_tests::run_ranks(2, [](Communicator& comm) {
    const StepTimes one{.forward_s = {1}, .backward_s = {1}};
    EXPECT_THAT(testing::error_of([&] { gather_times(comm, comm.rank() == 0 ? kFirst : one); }),
                ::testing::HasSubstr("parameters"));
    comm_tests::carry_out(comm, {.group = comm_tests::first_ranks(2), .name = "end"});
  });
}

}  // namespace
}  // namespace ndtrain
