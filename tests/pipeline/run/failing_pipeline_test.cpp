// What trainings by stages refuse, and what becomes of them when something goes wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "framework/pipeline/run/stage_cuts.h"
#include "tests/parallel/mortal_transport.h"
#include "tests/pipeline/run/training_by_stages.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_stages.h
using ::testing::AllOf;
using ::testing::HasSubstr;

Network net() { return network(skipping_net(true, 0.3)); }

std::string why(const TrainerConfig& config, const PipelineTraining::Options& options,
                const Network& n = net()) {
  return error_of([&] {
    PipelineTraining(n.model, n.trained, cpu(), config, talk(std::move(memory_transports(1)[0])),
                     options);
  });
}

TEST(FailingPipeline, WhatIsNotTrainedByStagesIsRefusedByName) {
  const TrainerConfig config = config_by_parts(2);
  EXPECT_THAT(why(config, {.schedule = "async", .drain_every = 0}),
              HasSubstr("drained behind 0 steps"));
  EXPECT_THAT(why(config, {.schedule = "async", .chunks = 2}), HasSubstr("it takes one"));
  EXPECT_THAT(why(config, {.schedule = "1f1b", .staleness = {.predict = true}}),
              HasSubstr("schedule '1f1b' computes on the newest parameters"));
  EXPECT_THAT(why(config, {.schedule = "async", .staleness = {.predict = true}}),
              HasSubstr("predict goes on as the momentum does"));
  EXPECT_THAT(why(config, {.schedule = "fastest"}), HasSubstr("fastest"));
  TrainerConfig other = config;
  other.shards = 2;
  EXPECT_THAT(why(other, {}), HasSubstr("2 shards: stages share a step by layers"));
  other = config;
  other.optimizer.clip_norm = 1;
  EXPECT_THAT(why(other, {}), HasSubstr("not clipped by stages yet"));
  other = config;
  other.compute = DType::kF16;
  EXPECT_THAT(why(other, {}), HasSubstr("not in f16"));
  other = config;
  other.accumulate = 25;
  EXPECT_THAT(why(other, {}), HasSubstr("a batch of 24 is not enough for 25 parts"));
  EXPECT_THAT(why(config, {.schedule = "1f1b", .chunks = 2}), HasSubstr("it takes one"));
  EXPECT_THAT(why(config, {.schedule = "interleaved", .chunks = 33}),
              HasSubstr("33 stages of a rank; 1 to 32"));
  EXPECT_THAT(why(config, {.schedule = "interleaved", .chunks = 30}, network(small_net(false, 0))),
              HasSubstr("30 stages of 6 nodes"));
  const auto two = [](const StepGraph& step, int) { return random_cut(step, 2, 1); };
  EXPECT_THAT(why(config, {.cut = two}), HasSubstr("2 stages for 1 ranks"));
}

TEST(FailingPipeline, APlanForAnotherModelIsRefusedByTheNode) {
  const Network n = net();
  const StepGraph step = make_step_graph(bind(n.model, 2), n.trained, 0);
  const std::vector<std::string> all = step_nodes(step).names;
  const auto cut = [&](const std::vector<std::string>& behind) {
    return error_of([&] { cut_by_names(step, std::vector{all, behind}); });
  };
  EXPECT_EQ(cut({}), "no error");
  EXPECT_THAT(cut({"layer9"}), AllOf(HasSubstr("'layer9' in stage 1"), HasSubstr("another model")));
  EXPECT_THAT(cut({"stem"}), HasSubstr("'stem' twice"));
  const std::vector<std::vector<std::string>> few = {{"stem"}};
  EXPECT_THAT(error_of([&] { cut_by_names(step, few); }),
              HasSubstr("no stage for the node '" + all[1]));
}

TEST(FailingPipeline, ALossThatIsNotFiniteEndsItOnAllRanksAlike) {
  TrainerConfig config = config_by_parts(2);
  config.schedule.lr = 1e30;
  config.optimizer.kind = OptimizerConfig::Kind::kSgd;
  const auto error_by = [](Training& training) {
    TensorDataset data = stripes(kRows, 3);
    return error_of([&] {
      EpochResult result;
      training.train_epoch(data, result, {});
    });
  };
  Trainer one(net().model, net().trained, cpu(), config);
  const std::string expected = error_by(one);
  ASSERT_THAT(expected, HasSubstr("diverged"));
  for (const char* schedule : {"1f1b", "async"}) {
    by_stages(3, net(), config, {.schedule = schedule, .drain_every = 1},
              [&](PipelineTraining& training) { EXPECT_EQ(error_by(training), expected); });
    by_stages(3, net(), config, {.schedule = schedule, .replicas = {2, 1}},
              [&](PipelineTraining& training) {
                EXPECT_THAT(error_by(training), HasSubstr("diverged"));
              });
  }
}

TEST(FailingPipeline, RowsThatAreNotFiniteAreNamedOnAllRanks) {
  by_stages(3, net(), config_by_parts(2), {}, [&](PipelineTraining& training) {
    Tensor x({DType::kF32, {12, 1, kSide, kSide}});
    x.mutable_as<float>()[700] = NAN;
    TensorDataset data({x}, std::vector<int64_t>(12, 1));
    EXPECT_THAT(error_of([&] {
                  EpochResult result;
                  training.train_epoch(data, result);
                }),
                HasSubstr("what is trained on has NaN or Inf"));
  });
}

// Whenever it is lost: in the first step, or in a later one. Who misses it leaves, and may be the
// one that another then misses first.
void expect_to_name_who_is_lost(const PipelineTraining::Options& options) {
  constexpr int kRanks = 3;
  for (int victim = 0; victim < kRanks; ++victim) {
    for (const int64_t messages : {1, 6, 40}) {
      SCOPED_TRACE("rank " + std::to_string(victim) + " after " + std::to_string(messages));
      auto transports = memory_transports(kRanks);
      std::atomic<int> naming = 0;
      std::vector<std::jthread> threads;
      for (int r = 0; r < kRanks; ++r) {
        threads.emplace_back([&, r] {
          auto& transport = transports[static_cast<size_t>(r)];
          const int64_t most = r == victim ? messages : kForever;
          PipelineTraining training(
              net().model, net().trained, cpu(), config_by_parts(4),
              talk(std::make_unique<MortalTransport>(std::move(transport), most)), options);
          try {
            TensorDataset data = stripes(kRows, 3);
            EpochResult result;
            for (int e = 0; e < 5; ++e) training.train_epoch(data, result);
            ADD_FAILURE() << "rank " << r << " has lost nobody";
          } catch (const RankLost& lost) {
            EXPECT_NE(r, victim);
            EXPECT_FALSE(lost.ranks.empty()) << lost.what();
            EXPECT_EQ(std::ranges::count(lost.ranks, r), 0) << lost.what();
            naming += std::ranges::count(lost.ranks, victim) > 0 ? 1 : 0;
          } catch (const std::runtime_error&) {
            EXPECT_EQ(r, victim);
          }
        });
      }
      threads.clear();
      EXPECT_GE(naming, 1);
    }
  }
}

TEST(FailingPipeline, ARankThatIsLostIsNamedByTheOthers) { expect_to_name_who_is_lost({}); }

TEST(FailingPipeline, AReplicaThatIsLostIsNamedByTheOthers) {
  for (const char* schedule : {"1f1b", "async"}) {
    expect_to_name_who_is_lost({.schedule = schedule, .replicas = {2, 1}, .sync = "dear"});
    expect_to_name_who_is_lost({.schedule = schedule, .replicas = {1, 2}});
  }
}

}  // namespace
}  // namespace ndtrain
