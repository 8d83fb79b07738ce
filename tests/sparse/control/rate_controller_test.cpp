#include "framework/sparse/control/rate_controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "tests/sparse/control/known_profiles.h"
#include "tests/sparse/control/virtual_ranks.h"

namespace ndtrain {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Phase = RateController::Phase;
using Batch = std::vector<int64_t>;

const std::vector<int64_t> kElements = {9408, 64, 2'359'296, 512'000, 1000};

ConvergenceProfile profile() {
  return known_profile(ConvergenceProfile::Over::kBandwidth, 100, 256, {});
}

RateControllerOptions options() {
  return {.model = "net",
          .first_batch = {16, 20},
          .largest_batch = {130, 40},
          .first_drop = 0.95,
          .sizes = {.elements = kElements, .value_bytes = 4, .index_bytes = 4},
          .seed = 7};
}

VirtualMachines machines(double mbps = 200) {
  return {.throughput = {{.alpha = 32, .beta = 400}, {.alpha = 24, .beta = 180}},
          .elements = kElements,
          .link_mbps = [mbps](int64_t) { return mbps; }};
}

Telemetry good(int rank, int64_t step) {
  return {.rank = rank,
          .step = step,
          .batch = rank == 0 ? 16 : 20,
          .drop = 0.95,
          .send_mbps = 100,
          .receive_mbps = 100,
          .forward_ms = 40,
          .backward_ms = 80,
          .backward_forward_gap_ms = 1,
          .in_forward_gap_ms = 0};
}

std::string message_of(const ConvergenceProfile& p, const RateControllerOptions& o) {
  try {
    RateController{p, o};
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing";
}

TEST(RateController, WarmsUpGrowsEvery4StepsAndRunsEvery5) {
  RateController controller(profile(), options());
  VirtualRanks ranks(machines(), options());
  EXPECT_EQ(controller.phase(), Phase::kWarmUp);
  EXPECT_EQ(controller.decided().batch, (Batch{16, 20}));
  ranks.run(controller, 7);
  EXPECT_EQ(controller.phase(), Phase::kWarmUp);
  EXPECT_THAT(ranks.instructions, IsEmpty());
  ranks.run(controller, 1);  // 4 of warming up and 4 samples
  EXPECT_EQ(controller.phase(), Phase::kGrow);
  EXPECT_EQ(controller.bandwidth_mbps(), 0);
  ranks.run(controller, 192);
  EXPECT_EQ(controller.phase(), Phase::kRun);
  EXPECT_GT(controller.bandwidth_mbps(), 0);

  const Batch grown[] = {{24, 30}, {36, 40}, {54, 40}, {81, 40}, {122, 40}, {130, 40}};
  ASSERT_GT(ranks.instructions.size(), 10u);
  for (size_t i = 0; i < ranks.instructions.size(); ++i) {
    const auto& [newest, told] = ranks.instructions[i];
    EXPECT_EQ(told.from_step, newest + 3);
    if (i < 6) {
      EXPECT_EQ(told.from_step, 10 + 4 * static_cast<int64_t>(i));
      EXPECT_EQ(told.batch, grown[i]);
      EXPECT_EQ(told.drop, 0.95);
    } else if (i > 6) {
      EXPECT_EQ(told.from_step, ranks.instructions[i - 1].instruction.from_step + 5);
    }
  }
  // The largest ones, from step 30, have four samples at step 33.
  EXPECT_EQ(ranks.instructions[6].newest_step, 33);
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_NEAR(controller.throughput()[r].alpha, machines().throughput[r].alpha, 0.01);
    EXPECT_NEAR(controller.throughput()[r].beta, machines().throughput[r].beta, 0.01);
  }
}

TEST(RateController, GrowsNothingThatIsTheLargest) {
  RateControllerOptions o = options();
  o.largest_batch = o.first_batch;
  RateController controller(profile(), o);
  VirtualRanks ranks(machines(), o);
  ranks.run(controller, 8);
  EXPECT_EQ(controller.phase(), Phase::kRun);
  ASSERT_EQ(ranks.instructions.size(), 1u);
  EXPECT_EQ(ranks.instructions[0].instruction.from_step, 10);
}

TEST(RateController, SaysWhatIsInForceOnAllRanksFromTheNewestStepAnyToldOf) {
  RateController controller(profile(), options());
  // Rank 1 is two steps ahead, and tells first.
  for (int64_t step = 0; step < 8; ++step) EXPECT_FALSE(controller.tell(good(1, step)));
  EXPECT_FALSE(controller.tell(good(1, 8)));
  for (int64_t step = 0; step < 7; ++step) EXPECT_FALSE(controller.tell(good(0, step)));
  EXPECT_FALSE(controller.tell(good(1, 9)));
  const auto told = controller.tell(good(0, 7));
  ASSERT_TRUE(told);
  EXPECT_EQ(told->from_step, 12);
  EXPECT_EQ(told->batch, (Batch{24, 30}));
  EXPECT_EQ(*told, controller.decided());
}

TEST(RateController, BeginsWithAnyStep) {
  RateControllerOptions o = options();
  o.first_step = 1000;
  RateController late(profile(), o), early(profile(), options());
  VirtualRanks late_ranks(machines(), o), early_ranks(machines(), options());
  late_ranks.run(late, 100);
  early_ranks.run(early, 100);
  ASSERT_EQ(late_ranks.instructions.size(), early_ranks.instructions.size());
  RateInstruction expected = early_ranks.instructions.back().instruction;
  expected.from_step += 1000;
  EXPECT_EQ(late_ranks.instructions.back().instruction, expected);
  EXPECT_THROW(late.tell(good(0, 999)), Error);
}

TEST(RateController, IsAFunctionOfWhatItIsToldAndTheOrderOfRanksIsNone) {
  const auto log_of = [](bool reversed) {
    RateController controller(profile(), options());
    VirtualRanks ranks(machines(), options());
    for (int step = 0; step < 150; ++step) {
      std::vector<Telemetry> all = ranks.next_step();
      if (reversed) std::ranges::reverse(all);
      for (const Telemetry& t : all) ranks.tell(controller, t);
    }
    return controller.take_log();
  };
  const std::vector<std::string> once = log_of(false);
  EXPECT_EQ(once, log_of(false));
  EXPECT_EQ(once, log_of(true));
  EXPECT_GT(once.size(), 20u);
}

TEST(RateController, LogsItsDecisionsWithWhatItWentBy) {
  RateController controller(profile(), options());
  VirtualRanks ranks(machines(), options());
  ranks.run(controller, 60);
  const std::vector<std::string> log = controller.take_log();
  EXPECT_EQ(log[0],
            "step 7: warmed up: 4 samples of throughput or more of each rank; batches grow");
  EXPECT_EQ(log[1], "step 7: batches 24 30, drop 0.95 from step 10");
  EXPECT_THAT(log, Contains(HasSubstr("step 33: batches are as large as they can be")));
  EXPECT_THAT(log, Contains(HasSubstr("step 33: B begins as ")));
  EXPECT_THAT(log, Contains(HasSubstr("rank 1: f(x) = min(180 x / 24, 180) rows/s of 3 batches")));
  EXPECT_THAT(log, Contains(::testing::ContainsRegex("step 33: batches [0-9]+ [0-9]+: J 0.0")));
  EXPECT_THAT(
      log, Contains(::testing::ContainsRegex(
               "step 38: B [0-9.]+ Mb/s, \\(.9 x [0-9.]+ \\+ .1 x 200\\) x 1.100: r [0-9.e-]+;")));
  EXPECT_THAT(controller.take_log(), IsEmpty());
}

TEST(RateController, IgnoresBadTelemetryWithALineThatSaysWhy) {
  RateController controller(profile(), options());
  controller.tell(good(0, 0));
  const auto ignored = [&](const Telemetry& t) {
    const int64_t before = controller.ignored();
    EXPECT_FALSE(controller.tell(t));
    EXPECT_EQ(controller.ignored(), before + 1);
    const std::vector<std::string> log = controller.take_log();
    return log.size() == 1 ? log[0] : "not one line";
  };
  EXPECT_EQ(ignored(good(0, 0)),
            "step 0: rank 0's telemetry of step 0 is ignored: it has told of step 0 already");
  EXPECT_EQ(ignored(good(1, 65)),
            "step 0: rank 1's telemetry of step 65 is ignored: the newest step is 0");
  Telemetry t = good(1, 0);
  t.backward_ms = NAN;
  EXPECT_THAT(ignored(t), HasSubstr("rank 1's telemetry of step 0 is ignored: backward_ms is nan"));
  t.backward_ms = -3;
  EXPECT_THAT(ignored(t), HasSubstr("backward_ms is -3, not from 0 to 3.6e+06"));
  t = good(1, 0);
  t.batch = 0;
  EXPECT_THAT(ignored(t), HasSubstr("batch is 0"));
  EXPECT_FALSE(controller.tell(good(1, 64)));  // as far ahead as may be
  EXPECT_THAT(controller.take_log(),
              ElementsAre(HasSubstr("rank 1 told nothing of steps 0 to 63")));
}

TEST(RateController, ThrowsOfARankOrStepThatThereIsNot) {
  RateController controller(profile(), options());
  EXPECT_THROW(controller.tell(good(2, 0)), Error);
  EXPECT_THROW(controller.tell(good(-1, 0)), Error);
  EXPECT_THROW(controller.tell(good(0, -1)), Error);
}

TEST(RateController, SaysWhereARankDidNotDoAsTold) {
  RateController controller(profile(), options());
  VirtualRanks ranks(machines(), options());
  ranks.run(controller, 100);
  controller.take_log();
  const RateInstruction in_force = controller.decided();
  // Rank 1 goes on with what was before, and waits long: B does not fall for it.
  for (int step = 0; step < 20; ++step) {
    for (Telemetry t : ranks.next_step()) {
      if (t.rank == 1) t.batch = 7;
      t.backward_forward_gap_ms += 1e4;
      ranks.tell(controller, t);
    }
  }
  EXPECT_GT(controller.decided().from_step, in_force.from_step);
  const std::vector<std::string> log = controller.take_log();
  EXPECT_THAT(log, Contains(HasSubstr("rank 1 did step 100 with a batch of 7 and drop")));
  EXPECT_THAT(log, Contains(HasSubstr(": r nothing;")));
  EXPECT_THAT(log, Not(Contains(HasSubstr("x 0.750"))));
}

TEST(RateController, GoesOnWhereTelemetryIsLost) {
  RateController controller(profile(), options());
  VirtualRanks ranks(machines(), options());
  for (int step = 0; step < 300; ++step) {
    for (const Telemetry& t : ranks.next_step()) {
      if ((t.step + t.rank) % 5 != 2) ranks.tell(controller, t);
    }
  }
  EXPECT_EQ(controller.phase(), Phase::kRun);
  EXPECT_GT(ranks.instructions.size(), 40u);
  EXPECT_THAT(controller.take_log(), Contains(HasSubstr("told nothing of steps 2 to 2")));
}

TEST(RateController, OfADryRunLogsAloneWhatItWouldSay) {
  RateControllerOptions o = options();
  o.dry_run = true;
  RateController controller(profile(), o);
  VirtualRanks ranks(machines(), o);
  ranks.run(controller, 200);
  EXPECT_THAT(ranks.instructions, IsEmpty());
  EXPECT_EQ(ranks.history.back().in_force.batch, o.first_batch);
  EXPECT_EQ(controller.phase(), Phase::kRun);
  const std::vector<std::string> log = controller.take_log();
  EXPECT_THAT(log, Contains("step 7: dry run: batches 24 30, drop 0.95 from step 10"));
  EXPECT_THAT(log, Not(Contains(HasSubstr("what it waited does not count"))));
  EXPECT_GT(controller.decided().from_step, 190);
}

TEST(RateController, KeepsNoMoreThanSoManyLinesOfItsLog) {
  RateController controller(profile(), options());
  controller.tell(good(0, 0));
  const auto most = static_cast<int>(RateController::kLogLines);
  for (int i = 0; i < most + 5; ++i) controller.tell(good(0, 0));
  const std::vector<std::string> log = controller.take_log();
  ASSERT_EQ(log.size(), RateController::kLogLines + 1);
  EXPECT_EQ(log[0], "5 lines are left out");
}

TEST(RateController, RefusesOneRankAndOtherProfiles) {
  EXPECT_EQ(message_of(profile(), options()), "nothing");
  RateControllerOptions o = options();
  o.first_batch = o.largest_batch = {16};
  EXPECT_EQ(message_of(profile(), o), "rate controller: 1 ranks; it is for two or more");
  o.first_batch = o.largest_batch = Batch(size_t{limits::kRanks} + 1, 16);
  EXPECT_THAT(message_of(profile(), o), HasSubstr("65 ranks, at most 64"));
  o.first_batch.pop_back();
  EXPECT_THAT(message_of(profile(), o), HasSubstr("batches of 64 ranks, largest ones of 65"));
  o.largest_batch.pop_back();
  EXPECT_EQ(message_of(profile(), o), "nothing");

  o = options();
  o.model = "vgg16";
  EXPECT_EQ(message_of(profile(), o),
            "convergence profile: of net, not of vgg16, which is trained");
  ConvergenceProfile p = profile();
  p.points[3].penalty = NAN;
  EXPECT_THAT(message_of(p, options()), HasSubstr("the penalty of point 4 is nan"));
}

// Each of three ranks sends what two of them take, where all are sites: then twice as much as where
// two send for three.
TEST(RateController, SharesTheLinkAmongSitesNotRanks) {
  RateControllerOptions o = options();
  o.first_batch = o.largest_batch = {16, 16, 16};
  std::vector<double> sent;
  for (const int sites : {2, 0}) {
    o.sites = sites;
    RateController controller(profile(), o);
    for (int64_t step = 0; controller.phase() != Phase::kRun; ++step) {
      ASSERT_LT(step, 50);
      for (const int rank : {0, 1, 2}) {
        Telemetry t = good(rank, step);
        t.batch = 16;
        controller.tell(t);
      }
    }
    const double link = least_drop(o.sizes, 0.08, controller.bandwidth_mbps());
    EXPECT_NEAR(controller.decided().drop, training_drop(link, sites == 0 ? 3 : sites), 1e-3);
    sent.push_back(1 - controller.decided().drop);
  }
  EXPECT_GT(sent[0], sent[1]);
}

TEST(RateController, RefusesOptionsThatCannotBe) {
  RateControllerOptions o = options();
  o.first_batch[1] = 41;
  EXPECT_EQ(message_of(profile(), o),
            "rate controller: rank 1 begins with a batch of 41, not from 1 to 40");
  o = options();
  o.first_batch[0] = 0;
  EXPECT_THAT(message_of(profile(), o), HasSubstr("rank 0 begins with a batch of 0"));
  o = options();
  o.first_drop = 1;
  EXPECT_THAT(message_of(profile(), o), HasSubstr("a drop of 1"));
  o = options();
  o.first_step = -1;
  EXPECT_THAT(message_of(profile(), o), HasSubstr("begins with step -1"));
  o = options();
  o.sizes.elements.clear();
  EXPECT_THAT(message_of(profile(), o), HasSubstr("of no tensors"));
  for (const int sites : {1, 3, -1}) {
    o = options();
    o.sites = sites;
    EXPECT_THAT(message_of(profile(), o), HasSubstr("it is for two sites or more"));
  }
  o = options();
  o.jump = 1;
  EXPECT_THAT(message_of(profile(), o), HasSubstr("not above 1"));
}

}  // namespace
}  // namespace ndtrain
