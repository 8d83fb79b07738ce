// Plans that change in the middle of a training: other times, the same bytes.
#include "framework/parallel/plan_tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/parallel/comm_plan_json.h"
#include "tests/parallel/training_by_ranks.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int kPlanShards = 4;

// What a rank has to show, the first one all of it.
struct Outcome {
  Bytes bytes;
  std::vector<std::string> plans;  // after each step, but for the same ones
  std::vector<std::string> said;
  ExchangeReport report;
  std::string trace;
};

// Three steps an epoch, unless the batch is another.
TrainerConfig longer(int64_t epochs, int64_t batch = 24) {
  TrainerConfig config = config_of({.kind = OptimizerConfig::Kind::kAdam}, kPlanShards);
  config.epochs = epochs;
  config.batch = batch;
  return config;
}

Bytes alone_for(int64_t epochs) { return alone(longer(epochs), epochs); }

std::vector<Outcome> train_by_ranks(int ranks, int64_t epochs, const PlanTuner::Options& tuning,
                                    bool trace = false, int64_t batch = 24) {
  auto transports = memory_transports(ranks);
  std::vector<Outcome> all(static_cast<size_t>(ranks));
  std::vector<std::jthread> threads;
  for (size_t r = 0; r < all.size(); ++r) {
    threads.emplace_back([&, r] {
      Outcome& o = all[r];
      DataParallel::Options options{.plan = pieces_of_32, .tuning = tuning, .trace = trace};
      options.tuning.say = [&](const std::string& line) { o.said.push_back(line); };
      const Model m = small_net(true, 0.3);
      DataParallel training(
          m, weights_of(m), cpu(), longer(epochs, batch),
          std::make_unique<Communicator>(std::move(transports[r]),
                                         Communicator::Options{.in_flight = 1, .trace = trace}),
          options);
      o.bytes = train(training, epochs, [&](int64_t, int64_t) {
        const std::string plan = to_json(training.plan());
        if (o.plans.empty() || o.plans.back() != plan) o.plans.push_back(plan);
        return true;
      });
      o.report = training.exchange_report();
      if (trace) o.trace = training.trace();
      training.barrier();
    });
  }
  threads.clear();
  return all;
}

PlanTuner::Options measured(std::string_view schedule) {
  return {.schedule = std::string(schedule),
          .plan = {.evaluations = 200},
          .collectives = {.least_elements = 64, .budget_s = 0}};
}

TEST(PlanTuner, MeasuredSchedulesInTheMiddleGiveTheBytesOfOneProcessOnAnyRanks) {
  constexpr int64_t kLong = 4;
  const Bytes expected = alone_for(kLong);
  for (const char* schedule : {"mg-wfbp", "bytescheduler", "pipedap", "auto"}) {
    for (const int ranks : {1, 2, 3, 4}) {
      SCOPED_TRACE(schedule + (", ranks: " + std::to_string(ranks)));
      const std::vector<Outcome> all = train_by_ranks(ranks, kLong, measured(schedule));
      for (const Outcome& o : all) {
        EXPECT_TRUE(o.bytes == expected) << "other bytes";
        EXPECT_EQ(o.plans, all[0].plans) << "the ranks' plans differ";
        EXPECT_EQ(o.plans.size(), 2U) << "one before the times, and one by them";
        EXPECT_GT(o.report.steps, 0);
        EXPECT_EQ(o.report.slowest_rank, all[0].report.slowest_rank);
        EXPECT_EQ(o.report.costs.has_value(), &o == &all[0]) << "rank 0 makes the plan";
      }
    }
  }
}

TEST(PlanTuner, TellsWhatWasPredictedForThePlanThatIsCarriedOut) {
  const Outcome first = train_by_ranks(2, 4, measured("auto"))[0];
  const ExchangeReport& r = first.report;
  EXPECT_GT(r.step_s, 0);
  EXPECT_GT(r.computing_s, 0);
  EXPECT_GE(r.exposed_s, 0);
  ASSERT_TRUE(r.costs);
  EXPECT_EQ(r.costs->ranks, 2);
  EXPECT_GT(r.costs->all_reduce.seconds(64), 0);
  EXPECT_GT(r.costs->optimizer_s_per_element, 0);
  for (const CostProfile::Layer& l : r.costs->layers) EXPECT_GT(l.forward_s + l.backward_s, 0);
  EXPECT_EQ(r.predicted.step_s, simulate(r.plan, *r.costs).step_s);
  EXPECT_EQ(r.plan, make_comm_plan("auto", *r.costs, {.evaluations = 200}));
  EXPECT_THAT(first.said, Contains(HasSubstr("auto: measured collectives")));
  EXPECT_THAT(first.said,
              Contains(AllOf(HasSubstr("predicted"), HasSubstr("exposed communication"))));
}

// Of eleven steps one in ten would be too few, and three are timed; of three, none can be.
TEST(PlanTuner, MeasuresATenthOfARunAndThreeStepsAtLeastOrSaysThatThereAreTooFew) {
  const Outcome four = train_by_ranks(2, 4, measured("mg-wfbp"))[0];
  EXPECT_THAT(four.said, Contains(HasSubstr("steps are timed for 3, after 1 to warm up")));
  const std::vector<Outcome> one = train_by_ranks(2, 1, measured("mg-wfbp"));
  EXPECT_THAT(one[0].said, Contains(HasSubstr("2 steps are too few to measure")));
  EXPECT_EQ(one[0].plans.size(), 1U);
  EXPECT_FALSE(one[0].report.costs);
  EXPECT_TRUE(one[0].bytes == alone_for(1));
  EXPECT_TRUE(one[1].said.empty()) << "rank 0 speaks for all";
}

PlanTuner::Options tuned(std::string_view schedule) {
  constexpr int64_t kLeast = 64, kMost = 512;
  return {.schedule = std::string(schedule),
          .plan = {.bucket_bytes = kLeast, .first_bucket_bytes = kLeast},
          .buckets = BucketTuner::Options{.first_bytes = kLeast,
                                          .least_bytes = kLeast,
                                          .most_bytes = kMost,
                                          .trials = 5,
                                          .steps = 2,
                                          .counted = 1}};
}

TEST(PlanTuner, TryingSizesOfBucketsGivesTheBytesOfOneProcessOnAnyRanks) {
  constexpr int64_t kLong = 7;  // 2 * 7 steps that are not the last of an epoch, less the first
  const Bytes expected = alone_for(kLong);
  for (const char* schedule : {"ddp", "dear"}) {
    for (const int ranks : {1, 2, 3, 4}) {
      SCOPED_TRACE(schedule + (", ranks: " + std::to_string(ranks)));
      const std::vector<Outcome> all = train_by_ranks(ranks, kLong, tuned(schedule));
      for (const Outcome& o : all) {
        EXPECT_TRUE(o.bytes == expected) << "other bytes";
        EXPECT_EQ(o.plans, all[0].plans) << "the ranks' plans differ";
        EXPECT_GT(o.plans.size(), 2U) << "no other sizes were tried";
      }
      EXPECT_THAT(all[0].said, Contains(HasSubstr("of 5 sizes of buckets that of")));
    }
  }
  const Outcome brief = train_by_ranks(2, 4, tuned("ddp"))[0];
  EXPECT_THAT(brief.said, Contains(HasSubstr("too few to try 5 sizes")));
  EXPECT_EQ(brief.plans.size(), 1U);
}

TEST(PlanTuner, PlansThatGoBySizesStayAndAreTimedForSoManySteps) {
  for (const char* schedule : {"", "wfbp"}) {
    std::vector<ExchangeReport> timed;
    const Outcome o = train_by_ranks(
        2, 4, {.schedule = schedule, .steps = 6, .timed = [&](const ExchangeReport& r) {
                 timed.push_back(r);
               }})[0];
    EXPECT_EQ(o.plans.size(), 1U);
    ASSERT_EQ(timed.size(), 1U) << "by rank 0, and once";
    EXPECT_EQ(timed[0].steps, 6);
    EXPECT_GT(timed[0].step_s, 0);
    EXPECT_EQ(o.report.step_s, timed[0].step_s);
    EXPECT_FALSE(o.report.costs);
    EXPECT_TRUE(o.said.empty());
  }
}

TEST(PlanTuner, EpochsOfOneStepAreTimedTooThoughNoneFollowsAnother) {
  const ExchangeReport r =
      train_by_ranks(2, 12, measured("mg-wfbp"), /*trace=*/false, /*batch=*/kRows)[0].report;
  EXPECT_TRUE(r.costs);
  EXPECT_EQ(r.step_s, r.computing_s + r.exposed_s);
  EXPECT_GT(r.step_s, 0);
}

TEST(PlanTuner, OfATracedTrainingKnowsWhatAllRanksDid) {
  const std::vector<Outcome> all = train_by_ranks(2, 2, {}, true);
  EXPECT_TRUE(all[1].trace.empty());
  for (const char* what : {"rank 0 computing", "rank 1 computing", "rank 1 link",
                           "\"forward conv.w\"", "\"backward fc.w\"", "\"update\"", "\"AR0\""}) {
    EXPECT_THAT(all[0].trace, HasSubstr(what));
  }
}

}  // namespace
}  // namespace ndtrain
