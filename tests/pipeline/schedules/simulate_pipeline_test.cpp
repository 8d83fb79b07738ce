#include "framework/pipeline/schedules/simulate_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

// Equal stages; forward, backward of inputs and of weights take F, B and W.
PipelineCosts equal_stages(int stages, double forward_s, double input_s, double weight_s) {
  return {.stages = std::vector<PipelineCosts::Stage>(
              static_cast<size_t>(stages),
              {.forward_s = forward_s, .input_s = input_s, .weight_s = weight_s})};
}

PipelinePrediction simulated(std::string_view schedule, const PipeShape& shape,
                             const PipelineCosts& costs) {
  return simulate_pipeline(*pipeline_schedule(schedule), shape, costs);
}

// "F0 0-1, B0 3-5": what a row computes.
std::string listed(const PipelinePrediction& p, size_t row) {
  std::string text;
  for (const PipelinePrediction::Span& s : p.rows[row].spans) {
    if (symbol(s.instruction.op).empty()) continue;
    char span[80];
    std::snprintf(span, sizeof span, "%s%s%d %g-%g", text.empty() ? "" : ", ",
                  std::string(symbol(s.instruction.op)).c_str(),
                  static_cast<int>(s.instruction.micro_batch), s.begin_s, s.end_s);
    text += span;
  }
  return text;
}

TEST(SimulatePipeline, APassWaitsForTheStageInFrontAndItsGradientForTheOneBehind) {
  const PipelinePrediction p =
      simulated("1f1b", {.stages = 2, .micro_batches = 2}, equal_stages(2, 1, 1, 2));
  EXPECT_EQ(listed(p, 0), "F0 0-1, F1 1-2, B0 5-8, B1 9-12, G1 12-12, U1 12-12");
  EXPECT_EQ(listed(p, 1), "F0 1-2, B0 2-5, F1 5-6, B1 6-9, G1 9-9, U1 9-9");
  EXPECT_DOUBLE_EQ(p.seconds, 12);
  EXPECT_DOUBLE_EQ(p.rows[0].computing_s, 8);
  EXPECT_DOUBLE_EQ(p.rows[0].waiting_s, 4);
  EXPECT_DOUBLE_EQ(p.rows[1].waiting_s, 4);
}

TEST(SimulatePipeline, MessagesTakeTheirBytesAndThenALatency) {
  PipelineCosts costs = equal_stages(2, 1, 1, 1);
  costs.edges = {
      {.activation_bytes = 300, .gradient_bytes = 50, .latency_s = 0.5, .bytes_per_s = 100}};
  const PipelinePrediction p = simulated("gpipe", {.stages = 2, .micro_batches = 2}, costs);
  // The second activation leaves when the first one is through: 1 + 3 + 3, and .5 later it is
  // there.
  EXPECT_EQ(listed(p, 1),
            "F0 4.5-5.5, F1 7.5-8.5, B0 8.5-10.5, B1 10.5-12.5, G1 12.5-12.5, "
            "U1 12.5-12.5");
  EXPECT_EQ(listed(p, 0), "F0 0-1, F1 1-2, B0 11.5-13.5, B1 13.5-15.5, G1 15.5-15.5, U1 15.5-15.5");
}

TEST(SimulatePipeline, ASendWaitsWhereBuffersAreFull) {
  PipelineCosts costs = equal_stages(2, 1, 1, 1);
  costs.stages[1].forward_s = 10;
  const PipeShape shape{.stages = 2, .micro_batches = 4, .forward_only = {true, false}};
  // Two may be on the way: the last one is sent when the second is received, after F0 and B0.
  const PipelinePrediction p = simulated("1f1b", shape, costs);
  EXPECT_EQ(p.rows[0].spans[7].instruction.op, PipeOp::kSendActivation);
  EXPECT_DOUBLE_EQ(p.rows[0].spans[7].begin_s, 4);
  EXPECT_DOUBLE_EQ(p.rows[0].spans[7].end_s, 13);
}

TEST(SimulatePipeline, ReplicasTakeTheirRows) {
  PipelineCosts costs = equal_stages(2, 6, 6, 6);
  costs.rows = 12;
  costs.replicas = {2, 3};
  costs.edges = {{.activation_bytes = 12, .gradient_bytes = 12, .bytes_per_s = 2}};
  const PipelinePrediction p = simulated("1f1b", {.stages = 2}, costs);
  ASSERT_EQ(p.rows.size(), 5U);
  EXPECT_EQ(listed(p, 0), "F0 0-3, B0 13-19, G0 19-19, U0 19-19");
  // Four rows of one take 2 s; two rows of each of the others 1 s, beside each other.
  EXPECT_EQ(listed(p, 2), "F0 5-7, B0 7-11, G0 11-11, U0 11-11");
  EXPECT_EQ(listed(p, 3), "F0 4-6, B0 6-10, G0 10-11, U0 11-11");
  EXPECT_EQ(p.rows[4].rank, 1);
  EXPECT_EQ(p.rows[4].replica, 2);
}

TEST(SimulatePipeline, AnExchangeWaitsForAllReplicas) {
  PipelineCosts costs = equal_stages(1, 2, 2, 2);
  costs.stages[0].exchange_s = 5;
  costs.stages[0].update_s = 1;
  costs.rows = 3;
  costs.replicas = {2};
  const PipelinePrediction two = simulated("gpipe", {.stages = 1}, costs);
  EXPECT_EQ(listed(two, 0), "F0 0-0.666667, B0 0.666667-2, G0 2-9, U0 9-10");
  EXPECT_EQ(listed(two, 1), "F0 0-1.33333, B0 1.33333-4, G0 4-9, U0 9-10");
  costs.replicas = {1};
  EXPECT_EQ(listed(simulated("gpipe", {.stages = 1}, costs), 0), "F0 0-2, B0 2-6, G0 6-6, U0 6-7");
}

TEST(SimulatePipeline, WhatIsComputedAgainIsComputedWhileTheGradientIsWaitedFor) {
  PipelineCosts costs = equal_stages(2, 1, 1, 1);
  costs.stages[0].recompute_s = 1;
  const PipelinePrediction p = simulated("1f1b", {.stages = 2, .recompute = {true, false}}, costs);
  EXPECT_EQ(listed(p, 0), "F0 0-1, R0 1-2, B0 4-6, G0 6-6, U0 6-6");
}

// What a mini-batch waits, of equal stages and sends that take no time.
TEST(SimulatePipeline, GpipeAndOneForwardOneBackwardWaitForAllStagesButOne) {
  const double f = 1, b = 1.25, w = 0.5;
  for (int stages = 1; stages <= 8; ++stages) {
    for (int64_t m = 1; m <= 12; ++m) {
      for (const char* name : {"gpipe", "1f1b"}) {
        const PipelinePrediction p =
            simulated(name, {.stages = stages, .micro_batches = m}, equal_stages(stages, f, b, w));
        for (const PipelinePrediction::Row& row : p.rows) {
          EXPECT_NEAR(row.waiting_s, (stages - 1) * (f + b + w), 1e-9)
              << name << ", " << stages << " stages, " << m << " micro-batches";
        }
      }
    }
  }
}

// As the paper assumes, no pass of weights takes longer than the others, and there are
// micro-batches enough to have such passes left.
TEST(SimulatePipeline, ZeroBubbleFillsWaitingWithWeights) {
  for (const auto& [f, b, w] : std::vector<std::array<double, 3>>{{1, 1, 1}, {1, 1.5, 0.75}}) {
    for (int stages = 1; stages <= 8; ++stages) {
      for (int64_t m = stages; m <= 2 * stages + 5; ++m) {
        const PipelinePrediction p =
            simulated("zb", {.stages = stages, .micro_batches = m}, equal_stages(stages, f, b, w));
        EXPECT_NEAR(p.rows[0].waiting_s, (stages - 1) * (f + b - w), 1e-9)
            << stages << " stages, " << m << " micro-batches, W " << w;
      }
    }
  }
}

TEST(SimulatePipeline, ZeroBubbleIsNeverSlowerThanOneForwardOneBackward) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int64_t m = 1; m <= 12; ++m) {
      const PipeShape shape{.stages = stages, .micro_batches = m};
      const PipelineCosts costs = equal_stages(stages, 1, 1, 1);
      EXPECT_LE(simulated("zb", shape, costs).seconds, simulated("1f1b", shape, costs).seconds);
    }
  }
}

TEST(SimulatePipeline, InterleavedWaitsLessByTheStagesOfARank) {
  const double f = 1, b = 1.25, w = 0.75;  // of a rank
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (int chunks = 1; chunks <= 4; ++chunks) {
      for (int64_t groups = 1; groups <= 4; ++groups) {
        const PipeShape shape{
            .stages = ranks * chunks, .chunks = chunks, .micro_batches = groups * ranks};
        const PipelinePrediction p = simulated(
            "interleaved", shape, equal_stages(shape.stages, f / chunks, b / chunks, w / chunks));
        EXPECT_NEAR(p.rows[0].waiting_s, (ranks - 1) * (f + b + w) / chunks, 1e-9)
            << ranks << " ranks, " << chunks << " chunks, " << groups << " groups";
      }
    }
  }
}

TEST(SimulatePipeline, WithoutInputPipeliningAllStagesButOneWait) {
  const PipelinePrediction p =
      simulated("sync", {.stages = 3, .micro_batches = 4}, equal_stages(3, 1, 1, 1));
  EXPECT_DOUBLE_EQ(p.seconds, 4 * 3 * 3);
}

TEST(SimulatePipeline, AsynchronousStagesDoNotWaitBetweenFirstAndLastMiniBatches) {
  for (int stages = 1; stages <= 6; ++stages) {
    const int n = 30;
    const PipelinePrediction p = simulated("async", {.stages = stages, .mini_batches = n},
                                           equal_stages(stages, 1, 1.5, 0.5));
    EXPECT_NEAR(p.mini_batch_s, 3, 1e-9);
    EXPECT_NEAR(p.seconds, 3.0 * (n + stages - 1), 1e-9);
    for (const PipelinePrediction::Row& row : p.rows) {
      for (const PipelinePrediction::Span& s : row.spans) {
        if (s.instruction.micro_batch < 2 * stages || s.instruction.micro_batch > n - stages) {
          continue;
        }
        if (is_computing(s.instruction.op)) continue;
        EXPECT_NEAR(s.end_s, s.begin_s, 1e-9) << "rank " << row.rank;
      }
    }
  }
}

TEST(SimulatePipeline, TwoBufferedWeightsDoNotWaitBetweenMiniBatches) {
  const PipelinePrediction p = simulated(
      "2bw", {.stages = 4, .micro_batches = 4, .mini_batches = 20}, equal_stages(4, 1, 1, 1));
  EXPECT_NEAR(p.mini_batch_s, 4 * 3, 1e-9);
}

// Of two equal stages and four micro-batches, an epoch of 20 mini-batches with its drain.
TEST(SimulatePipeline, AsynchronousAgainstGpipeAndZeroBubbleAgainstOneForwardOneBackward) {
  const PipelineCosts costs = equal_stages(2, 1, 1, 1);
  const auto seconds = [&](std::string_view name) {
    return simulated(name, {.stages = 2, .micro_batches = 4, .mini_batches = 20}, costs).seconds;
  };
  const double async =
      simulated("async", {.stages = 2, .mini_batches = 20}, equal_stages(2, 4, 4, 4)).seconds;
  EXPECT_NEAR(seconds("gpipe") / async, 20.0 * 5 / (4 * 21), 1e-9);  // 1.19; 1.25 without a drain
  EXPECT_NEAR(seconds("gpipe") / seconds("async"), 20.0 * 5 / 81, 1e-9);
  EXPECT_NEAR(seconds("1f1b") / seconds("zb"), 15.0 / 13, 1e-9);  // 1.15
}

TEST(SimulatePipeline, TheTimeOfAMiniBatchIsThatBetweenTwo) {
  const PipelineCosts costs = equal_stages(3, 1, 1, 1);
  EXPECT_DOUBLE_EQ(simulated("1f1b", {.stages = 3, .micro_batches = 4}, costs).mini_batch_s, 18);
  EXPECT_DOUBLE_EQ(
      simulated("1f1b", {.stages = 3, .micro_batches = 4, .mini_batches = 6}, costs).mini_batch_s,
      18);
}

TEST(SimulatePipeline, CountsVersionsAndWhatIsInFlight) {
  const auto p = simulated("async", {.stages = 3, .mini_batches = 5}, equal_stages(3, 1, 1, 1));
  for (int64_t s = 0; s < 3; ++s) {
    EXPECT_EQ(p.stages[static_cast<size_t>(s)].most_versions, 3 - s);
    EXPECT_EQ(p.stages[static_cast<size_t>(s)].most_in_flight, 3 - s);
  }
}

auto simulating_refuses(const std::string& why) {
  return ::testing::ThrowsMessage<Error>(::testing::HasSubstr(why));
}

using enum PipeOp;
using Lists = std::vector<std::vector<Instruction>>;

// Two stages, one micro-batch, as 1f1b has it.
Lists two_stages() {
  return {{{kForward, 0},
           {kSendActivation, 0, 0, 0, 1},
           {kReceiveGradient, 0, 0, 0, 1},
           {kBackward, 0},
           {kUpdate, 0},
           {kFlush, 0}},
          {{kReceiveActivation, 1, 0, 0, 0},
           {kForward, 1},
           {kBackward, 1},
           {kSendGradient, 1, 0, 0, 0},
           {kUpdate, 1},
           {kFlush, 1}}};
}

auto playing(const Lists& lists, const PipeShape& shape = {.stages = 2}, int64_t buffer = 1) {
  return [=] {
    const std::vector<int64_t> buffers(static_cast<size_t>(shape.stages), buffer);
    (void)simulate_pipeline(lists, buffers, shape, equal_stages(shape.stages, 1, 1, 1));
  };
}

TEST(SimulatePipeline, RanksThatWaitInACircleAreNamed) {
  EXPECT_NO_THROW(playing(two_stages())());
  Lists lists = two_stages();
  std::swap(lists[0][1], lists[0][2]);
  EXPECT_THAT(playing(lists),
              simulating_refuses("rank 0 waits for the gradient of micro-batch 0 from stage 1; "
                                 "rank 1 waits for the activation of micro-batch 0 from stage 0"
                                 ": a circle"));
}

TEST(SimulatePipeline, ASendForWhichThereIsNeverRoomIsNamed) {
  EXPECT_THAT(playing(two_stages(), {.stages = 2}, 0),
              simulating_refuses(
                  "rank 0 has no room for the activation of micro-batch 0 to stage 1; rank 1 "
                  "waits for the activation of micro-batch 0 from stage 0: a circle"));
}

TEST(SimulatePipeline, AMessageThatNobodySendsIsNamed) {
  Lists lists = two_stages();
  std::erase_if(lists[1], [](const Instruction& i) { return i.op == kSendGradient; });
  EXPECT_THAT(playing(lists),
              simulating_refuses("rank 0 waits for the gradient of micro-batch 0 from stage 1; "
                                 "rank 1 has ended"));
}

TEST(SimulatePipeline, AMessageThatNobodyReceivesIsNamed) {
  Lists lists = two_stages();
  std::erase_if(lists[0], [](const Instruction& i) { return i.op == kReceiveGradient; });
  EXPECT_THAT(playing(lists),
              simulating_refuses("stage 1 sends the gradient of micro-batch 0 to stage 0, "
                                 "which never receives it"));
}

TEST(SimulatePipeline, AMessageOfAnotherMicroBatchIsNamed) {
  Lists lists = two_stages();
  lists[0][1].micro_batch = 3;
  EXPECT_THAT(playing(lists),
              simulating_refuses("stage 1 waits for the activation of micro-batch 0 from stage "
                                 "0, which sends the activation of micro-batch 3 to stage 1"));
}

TEST(SimulatePipeline, AMessageWithoutAnEdgeIsRefused) {
  const PipeShape shape{.stages = 3};
  Lists lists = two_stages();
  lists.push_back({});
  lists[0][1].peer = 2;
  EXPECT_THAT(playing(lists, shape), simulating_refuses("nothing goes from stage 0 to stage 2"));
  lists[0][1] = {kSendGradient, 0, 0, 0, 1};
  EXPECT_THAT(playing(lists, shape), simulating_refuses("nothing goes from stage 0 to stage 1"))
      << "but activations";
}

TEST(SimulatePipeline, ListsThatMakeNoSenseAreRefused) {
  const PipeShape one{.stages = 1, .micro_batches = 2};
  const auto of = [&](std::vector<Instruction> list) { return playing({std::move(list)}, one); };
  EXPECT_THAT(of({{kForward, 0, 1}}),
              simulating_refuses("forward pass of micro-batch 1 of stage 0 on version "
                                 "0, where the next is micro-batch 0"));
  EXPECT_THAT(of({{kForward, 0, 0, 1}}), simulating_refuses("where the newest is 0"));
  EXPECT_THAT(of({{kForward}, {kForward}}), simulating_refuses("where the next is micro-batch 1"));
  EXPECT_THAT(of({{kBackward}}), simulating_refuses("where so many are forwarded: 0"));
  EXPECT_THAT(of({{kForward}, {kBackward}, {kBackward}}),
              simulating_refuses("where the next is micro-batch 1"));
  EXPECT_THAT(of({{kForward}, {kBackward, 0, 0, 1}}), simulating_refuses("forwarded on version 0"));
  EXPECT_THAT(of({{kForward}, {kRecompute, 0, 0, 1}}),
              simulating_refuses("forwarded on version 0"));
  EXPECT_THAT(of({{kForward}, {kBackwardWeight}}),
              simulating_refuses("where so many are taken back: 0"));
  EXPECT_THAT(of({{kForward}, {kBackwardInput}, {kBackwardWeight, 0, 0, 1}}),
              simulating_refuses("forwarded on version 0"));
  EXPECT_THAT(
      of({{kForward}, {kBackward}, {kUpdate}, {kUpdate}}),
      simulating_refuses("update of version 0 of stage 0 on version 0, where the newest is 1"));
  EXPECT_THAT(of({{kForward}, {kBackwardInput}, {kUpdate}}),
              simulating_refuses("where so many micro-batches are taken back: 0"));
  EXPECT_THAT(of({{kForward}, {kFlush}}), simulating_refuses("where so many are in flight: 1"));
  EXPECT_THAT(of({{kForward}, {kBackward}, {kUpdate}, {kForward, 0, 1, 1}, {kForward, 0, 2}}),
              simulating_refuses("behind one on version 1"));
  EXPECT_THAT(of({{kForward, 1}}),
              simulating_refuses("rank 0 is told the forward pass of micro-batch 0 of "
                                 "stage 1, which is not its own"));
  EXPECT_NO_THROW(of({{kForward},
                      {kBackward},
                      {kUpdate},
                      {kFlush},
                      {kForward},
                      {kBackward},
                      {kUpdate},
                      {kFlush}})())
      << "all counts begin anew";
}

TEST(SimulatePipeline, StagesOfARankHandEachOtherWhatIsComputed) {
  const PipeShape shape{.stages = 2, .chunks = 2};
  EXPECT_THAT(
      playing({{{kForward, 1}}}, shape),
      simulating_refuses("forward pass of micro-batch 0 of stage 1 comes before that of stage 0"));
  EXPECT_THAT(
      playing({{{kForward, 0}, {kForward, 1}, {kBackward, 0}}}, shape),
      simulating_refuses("backward pass of micro-batch 0 of stage 0 comes before that of stage 1"));
}

TEST(SimulatePipeline, CostsThatDoNotFitAreRefused) {
  const PipeShape shape{.stages = 2};
  const auto with = [&](auto change) {
    PipelineCosts costs = equal_stages(2, 1, 1, 1);
    costs.rows = 4;
    change(costs);
    return [=] { (void)simulated("1f1b", shape, costs); };
  };
  EXPECT_NO_THROW(with([](auto&) {})());
  EXPECT_THAT(with([](auto& c) { c.stages.pop_back(); }),
              simulating_refuses("1 stages, where the pipeline has 2"));
  EXPECT_THAT(with([](auto& c) { c.edges.resize(3); }), simulating_refuses("3 edges"));
  EXPECT_THAT(with([](auto& c) { c.replicas = {1}; }), simulating_refuses("1 numbers of replicas"));
  EXPECT_THAT(with([](auto& c) {
                c.replicas = {5, 1};
              }),
              simulating_refuses("4 rows cannot be shared out among 5 replicas"));
  EXPECT_THAT(with([](auto& c) {
                c.replicas = {1, 0};
              }),
              simulating_refuses("rank 1 has 0 replicas"));
  EXPECT_THAT(with([](auto& c) { c.rows = 0; }), simulating_refuses("0 rows"));
  EXPECT_THAT(with([](auto& c) { c.stages[0].forward_s = -1; }), simulating_refuses("takes -1 s"));
  EXPECT_THAT(
      with([](auto& c) { c.stages[1].update_s = std::numeric_limits<double>::quiet_NaN(); }),
      simulating_refuses("takes nan s"));
  EXPECT_THAT(with([](auto& c) { c.edges = {{.latency_s = -2}}; }), simulating_refuses("-2"));
}

}  // namespace
}  // namespace ndtrain
