#include "framework/pipeline/schedules/schedules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/core/limits.h"

namespace ndtrain {
namespace {

// "F1@0 B0@0 U0": what a rank computes, with micro-batches and versions; with several stages a rank
// "F1@0/2" is of stage 2.
std::string computed(std::string_view schedule, const PipeShape& shape, int rank) {
  std::string text;
  for (const Instruction& i : pipeline_schedule(schedule)->instructions(shape, rank)) {
    if (!is_computing(i.op)) continue;
    text += (text.empty() ? "" : " ") + std::string(symbol(i.op));
    if (i.op != PipeOp::kUpdate) text += std::to_string(i.micro_batch) + "@";
    text += std::to_string(i.version);
    if (shape.chunks > 1) text += "/" + std::to_string(i.stage);
  }
  return text;
}

// The same without versions, all of which are 0 in a single mini-batch.
std::string order(std::string_view schedule, const PipeShape& shape, int rank) {
  std::string text = computed(schedule, shape, rank);
  for (size_t at; (at = text.find("@0")) != text.npos;) text.erase(at, 2);
  return text;
}

std::vector<PipeOp> ops(std::span<const Instruction> list) {
  std::vector<PipeOp> all;
  for (const Instruction& i : list) all.push_back(i.op);
  return all;
}

TEST(Schedules, GpipeForwardsAllThenTakesAllBack) {
  const PipeShape shape{.stages = 2, .micro_batches = 3};
  for (const int rank : {0, 1}) {
    EXPECT_EQ(order("gpipe", shape, rank), "F0 F1 F2 B0 B1 B2 U0");
  }
}

TEST(Schedules, OneForwardOneBackwardIsAheadByTheStagesBehind) {
  const PipeShape shape{.stages = 3, .micro_batches = 4};
  EXPECT_EQ(order("1f1b", shape, 0), "F0 F1 F2 B0 F3 B1 B2 B3 U0");
  EXPECT_EQ(order("1f1b", shape, 1), "F0 F1 B0 F2 B1 F3 B2 B3 U0");
  EXPECT_EQ(order("1f1b", shape, 2), "F0 B0 F1 B1 F2 B2 F3 B3 U0");
}

TEST(Schedules, MiniBatchesOfSynchronousOnesFollowEachOther) {
  const PipeShape shape{.stages = 2, .micro_batches = 2, .mini_batches = 2};
  EXPECT_EQ(computed("gpipe", shape, 0), "F0@0 F1@0 B0@0 B1@0 U0 F2@1 F3@1 B2@1 B3@1 U1");
  EXPECT_EQ(computed("1f1b", shape, 0), "F0@0 F1@0 B0@0 B1@0 U0 F2@1 F3@1 B2@1 B3@1 U1");
  EXPECT_EQ(computed("zb", shape, 1),
            "F0@0 B0@0 F1@0 B1@0 W0@0 W1@0 U0 F2@1 B2@1 F3@1 B3@1 W2@1 W3@1 U1");
}

TEST(Schedules, WithoutInputPipeliningOneMicroBatchIsUnderWay) {
  const PipeShape shape{.stages = 3, .micro_batches = 2};
  for (const int rank : {0, 1, 2}) EXPECT_EQ(order("sync", shape, rank), "F0 B0 F1 B1 U0");
}

// Figure 3 of the paper, with three stages.
TEST(Schedules, ZeroBubbleLeavesWeightsForLater) {
  const PipeShape shape{.stages = 3, .micro_batches = 4};
  EXPECT_EQ(order("zb", shape, 0), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3 U0");
  EXPECT_EQ(order("zb", shape, 1), "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3 U0");
  EXPECT_EQ(order("zb", shape, 2), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3 U0");
}

// After k updates stage s forwards mini-batch k + d on version k, and takes k back on max(0, k -
// d), with d = 2, 1, 0: the update is applied to version k.
TEST(Schedules, AsynchronousVersionsOfThreeStagesAndFiveBatches) {
  const PipeShape shape{.stages = 3, .mini_batches = 5};
  EXPECT_EQ(computed("async", shape, 0),
            "F0@0 F1@0 F2@0 B0@0 U0 F3@1 B1@0 U1 F4@2 B2@0 U2 B3@1 U3 B4@2 U4");
  EXPECT_EQ(computed("async", shape, 1),
            "F0@0 F1@0 B0@0 U0 F2@1 B1@0 U1 F3@2 B2@1 U2 F4@3 B3@2 U3 B4@3 U4");
  EXPECT_EQ(computed("async", shape, 2),
            "F0@0 B0@0 U0 F1@1 B1@1 U1 F2@2 B2@2 U2 F3@3 B3@3 U3 F4@4 B4@4 U4");
}

TEST(Schedules, AsynchronousMiniBatchesMayHaveMicroBatches) {
  const PipeShape shape{.stages = 2, .micro_batches = 2, .mini_batches = 3};
  EXPECT_EQ(computed("async", shape, 0),
            "F0@0 F1@0 F2@0 B0@0 F3@0 B1@0 U0 F4@1 B2@0 F5@1 B3@0 U1 B4@1 B5@1 U2");
  EXPECT_EQ(computed("async", shape, 1),
            "F0@0 B0@0 F1@0 B1@0 U0 F2@1 B2@1 F3@1 B3@1 U1 F4@2 B4@2 F5@2 B5@2 U2");
}

TEST(Schedules, TwoBufferedWeightsAreOneUpdateLateEverywhere) {
  const PipeShape shape{.stages = 2, .micro_batches = 2, .mini_batches = 3};
  EXPECT_EQ(computed("2bw", shape, 0),
            "F0@0 F1@0 B0@0 F2@0 B1@0 U0 F3@0 B2@0 F4@1 B3@0 U1 F5@1 B4@1 B5@1 U2");
  EXPECT_EQ(computed("2bw", shape, 1),
            "F0@0 B0@0 F1@0 B1@0 U0 F2@0 B2@0 F3@0 B3@0 U1 F4@1 B4@1 F5@1 B5@1 U2");
}

TEST(Schedules, TwoBufferedWeightsWaitForAVersionWhereMicroBatchesAreFew) {
  const PipeShape shape{.stages = 4, .mini_batches = 4};
  EXPECT_EQ(computed("2bw", shape, 0), "F0@0 F1@0 B0@0 U0 F2@1 B1@0 U1 F3@2 B2@1 U2 B3@2 U3");
}

// Megatron-LM's: two ranks of two stages, micro-batches in groups of two.
TEST(Schedules, InterleavedStagesOfARankTakeTurnsByGroups) {
  const PipeShape shape{.stages = 4, .chunks = 2, .micro_batches = 4};
  EXPECT_EQ(order("interleaved", shape, 0),
            "F0/0 F1/0 F0/2 F1/2 F2/0 B0/2 F3/0 B1/2 F2/2 B0/0 F3/2 B1/0 B2/2 B3/2 B2/0 B3/0 "
            "U0/0 U0/2");
  EXPECT_EQ(order("interleaved", shape, 1),
            "F0/1 F1/1 F0/3 B0/3 F1/3 B1/3 F2/1 B0/1 F3/1 B1/1 F2/3 B2/3 F3/3 B3/3 B2/1 B3/1 "
            "U0/1 U0/3");
}

TEST(Schedules, InterleavedTakesAnyNumberOfMicroBatches) {
  const PipeShape shape{.stages = 4, .chunks = 2, .micro_batches = 3};
  EXPECT_EQ(order("interleaved", shape, 1),
            "F0/1 F1/1 F0/3 B0/3 F1/3 B1/3 F2/1 B0/1 B1/1 F2/3 B2/3 B2/1 U0/1 U0/3");
}

TEST(Schedules, InterleavedWithOneStageARankIsOneForwardOneBackward) {
  const PipeShape shape{.stages = 3, .micro_batches = 5};
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(order("interleaved", shape, rank), order("1f1b", shape, rank));
  }
}

TEST(Schedules, MessagesStandAroundWhatIsComputed) {
  using enum PipeOp;
  const PipeShape shape{.stages = 3, .recompute = {false, true, false}};
  EXPECT_THAT(ops(pipeline_schedule("1f1b")->instructions(shape, 1)),
              ::testing::ElementsAre(kReceiveActivation, kForward, kSendActivation, kRecompute,
                                     kReceiveGradient, kBackward, kSendGradient, kGradSync, kUpdate,
                                     kFlush));
  EXPECT_THAT(ops(pipeline_schedule("zb")->instructions(shape, 2)),
              ::testing::ElementsAre(kReceiveActivation, kForward, kBackwardInput, kSendGradient,
                                     kBackwardWeight, kGradSync, kUpdate, kFlush))
      << "what the stage in front waits for leaves before weights are computed";
}

TEST(Schedules, AValueGoesStraightToEachStageThatReadsIt) {
  const PipeShape shape{.stages = 4, .edges = {{0, 3, false}, {1, 3}, {0, 1}, {1, 2}, {2, 3}}};
  const auto peers = [&](int rank) {
    std::string text;
    for (const Instruction& i : pipeline_schedule("gpipe")->instructions(shape, rank)) {
      if (is_send(i.op) || is_receive(i.op)) {
        text += (is_send(i.op) ? " to " : " from ") + std::to_string(i.peer);
      }
    }
    return text;
  };
  EXPECT_EQ(peers(0), " to 1 to 3 from 1") << "that to 3 has no gradient";
  EXPECT_EQ(peers(1), " from 0 to 2 to 3 from 2 from 3 to 0");
  EXPECT_EQ(peers(2), " from 1 to 3 from 3 to 1");
  EXPECT_EQ(peers(3), " from 0 from 1 from 2 to 2 to 1");
}

TEST(Schedules, AGradientAloneGoesFromOneReaderOfAValueToTheOther) {
  // Stages 1 and 2 read what stage 0 makes, and nothing of each other.
  const PipeShape shape{.stages = 4,
                        .edges = {{0, 1}, {0, 2, false}, {1, 2, true, false}, {1, 3}, {2, 3}}};
  const auto said = [&](int rank) {
    std::string text;
    for (const Instruction& i : pipeline_schedule("1f1b")->instructions(shape, rank)) {
      if (!is_send(i.op) && !is_receive(i.op)) continue;
      const bool gradient = i.op == PipeOp::kSendGradient || i.op == PipeOp::kReceiveGradient;
      text += (is_send(i.op) ? " >" : " <") + std::to_string(i.peer) + (gradient ? "g" : "");
    }
    return text;
  };
  EXPECT_EQ(said(0), " >1 >2 <1g");
  EXPECT_EQ(said(1), " <0 >3 <2g <3g >0g");
  EXPECT_EQ(said(2), " <0 >3 <3g >1g");
  EXPECT_EQ(said(3), " <1 <2 >2g >1g");
}

TEST(Schedules, AFrozenStageOnlyRunsForward) {
  const PipeShape shape{.stages = 3, .mini_batches = 3, .forward_only = {true, false, false}};
  EXPECT_EQ(computed("async", shape, 0), "F0@0 F1@0 F2@0");
  EXPECT_EQ(computed("async", shape, 1), "F0@0 F1@0 B0@0 U0 F2@1 B1@0 U1 B2@1 U2");
  for (const Instruction& i : pipeline_schedule("async")->instructions(shape, 1)) {
    EXPECT_NE(i.op, PipeOp::kSendGradient);
  }
  EXPECT_EQ(pipeline_schedule("async")->delay(shape, 0), 0);
  EXPECT_EQ(pipeline_schedule("async")->delay(shape, 1), 1);
}

TEST(Schedules, SayWhatTheyAre) {
  const PipeShape shape{.stages = 4, .micro_batches = 8, .mini_batches = 4};
  for (const std::string_view name : pipeline_schedules()) {
    const auto schedule = pipeline_schedule(name);
    EXPECT_EQ(schedule->name(), name);
    EXPECT_EQ(schedule->synchronous(), name != "async" && name != "2bw");
    for (int s = 0; s < 4; ++s) {
      EXPECT_EQ(schedule->delay(shape, s), name == "async" ? 3 - s : name == "2bw" ? 1 : 0);
    }
  }
}

TEST(Schedules, OneForwardOneBackwardHasLessInFlightThanGpipe) {
  const PipeShape shape{.stages = 4, .micro_batches = 8};
  const auto in_flight = [&](std::string_view name) {
    std::vector<int64_t> most;
    for (int s = 0; s < 4; ++s) most.push_back(pipeline_schedule(name)->most_in_flight(shape, s));
    return most;
  };
  EXPECT_THAT(in_flight("gpipe"), ::testing::ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(in_flight("1f1b"), ::testing::ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(in_flight("zb"), ::testing::ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(in_flight("2bw"), ::testing::ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(in_flight("sync"), ::testing::ElementsAre(1, 1, 1, 1));
}

auto refuses(const std::string& why) {
  return ::testing::ThrowsMessage<Error>(::testing::HasSubstr(why));
}

TEST(Schedules, OneThatDoesNotExistIsRefusedWithThoseThatDo) {
  EXPECT_THAT([] { (void)pipeline_schedule("dualpipe"); },
              refuses("'dualpipe'; there are gpipe, 1f1b, interleaved, zb, 2bw, async, sync"));
}

TEST(Schedules, ShapesThatMakeNoSenseAreRefused) {
  const auto of = [](const PipeShape& shape, int rank = 0) {
    return [=] { (void)pipeline_schedule("1f1b")->instructions(shape, rank); };
  };
  EXPECT_THAT(of({.stages = 0}), refuses("0 stages"));
  EXPECT_THAT(of({.stages = 2}, 2), refuses("rank 2 of 2"));
  EXPECT_THAT(of({.stages = 2, .micro_batches = 0}), refuses("of 0 micro-batches"));
  EXPECT_THAT(of({.stages = 2, .mini_batches = -1}), refuses("-1 mini-batches"));
  EXPECT_THAT(of({.stages = 4, .chunks = 2}), refuses("2 stages of a rank; it takes one"));
  EXPECT_THAT(of({.stages = 3, .chunks = 2}), refuses("3 stages cannot be shared out alike"));
  EXPECT_THAT(of({.stages = 2, .chunks = 0}), refuses("0 to a rank"));
  EXPECT_THAT(of({.stages = 3, .recompute = {true}}), refuses("said of 1 stages"));
  EXPECT_THAT(of({.stages = 3, .edges = {{2, 1}}}), refuses("from stage 2 to stage 1"));
  EXPECT_THAT(of({.stages = 3, .edges = {{1, 3}}}), refuses("from stage 1 to stage 3 of 3"));
  EXPECT_THAT(of({.stages = 3, .edges = {{0, 1}, {0, 1}}}), refuses("two edges"));
  EXPECT_THAT(of({.stages = 3, .edges = {{0, 1}, {1, 2}, {0, 2, false, false}}}),
              refuses("nothing goes from stage 0 to stage 2, or back"));
  EXPECT_THAT(of({.stages = 2, .forward_only = {false, true}}),
              refuses("waits for a gradient from stage 1, which only runs forward"));
  EXPECT_THAT(of({.stages = 2, .edges = {{0, 1, false}}}),
              refuses("stage 0 is trained, and no later stage returns a gradient to it"));
}

TEST(Schedules, MicroBatchesUntilAFlushHaveALimit) {
  const auto of = [](int64_t micro_batches, int64_t mini_batches) {
    return [=] { validate({.micro_batches = micro_batches, .mini_batches = mini_batches}); };
  };
  EXPECT_NO_THROW(of(limits::kFlushMicroBatches, 1)());
  EXPECT_NO_THROW(of(limits::kFlushMicroBatches / 2, 2)());
  EXPECT_THROW(of(limits::kFlushMicroBatches + 1, 1)(), Error);
  EXPECT_THROW(of(limits::kFlushMicroBatches / 2 + 1, 2)(), Error);
  EXPECT_THROW(of(2, INT64_MAX)(), Error);
}

}  // namespace
}  // namespace ndtrain
