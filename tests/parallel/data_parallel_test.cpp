// Ranks against one process that does all the shards: the same bytes.
#include "framework/parallel/data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/parallel/training_by_ranks.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h

struct Case {
  const char* name;
  OptimizerConfig optimizer;
};

class DataParallelBytes : public ::testing::TestWithParam<Case> {};

TEST_P(DataParallelBytes, AreThoseOfOneProcessWhateverPlanAndRanks) {
  const TrainerConfig config = config_of(GetParam().optimizer, 8);
  const Bytes expected = alone(config);
  std::vector<std::pair<std::string, DataParallel::MakePlan>> plans = {
      {"all at once", all_reduce_at_once},
      {"halves", [](const auto& p) { return halves(p, 0); }},
      {"halves, gathered ahead of the forward pass", [](const auto& p) { return halves(p, 1); }},
      {"by rank 0", by_rank_0},
      {"pieces", pieces_of_32},
      {"grouped", grouped}};
  for (const auto& schedule : plans_of_schedules()) plans.push_back(schedule);
  for (const auto& [name, plan] : plans) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      SCOPED_TRACE(name + ", ranks: " + std::to_string(ranks));
      for (const Bytes& b : by_ranks(ranks, config, {.plan = plan})) {
        ASSERT_EQ(b == expected, true) << "other bytes";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, DataParallelBytes,
                         ::testing::Values(Case{"Sgd", {.kind = OptimizerConfig::Kind::kSgd}},
                                           Case{"Adam", {.kind = OptimizerConfig::Kind::kAdam}},
                                           Case{"AdamW", {.kind = OptimizerConfig::Kind::kAdamW}},
                                           Case{"RmsProp",
                                                {.kind = OptimizerConfig::Kind::kRmsProp}}),
                         [](const auto& of) { return std::string(of.param.name); });

TEST(DataParallel, UnequalSharesGiveTheSameBytes) {
  const TrainerConfig config = config_of({}, 7);
  const Bytes expected = alone(config);
  for (const Bytes& b : by_ranks(3, config, {.plan = all_reduce_at_once, .shares = {4, 1, 2}})) {
    EXPECT_EQ(b == expected, true);
  }
}

TEST(DataParallel, OneShardIsATrainingWithoutShards) {
  const TrainerConfig config = config_of({}, 1);
  for (const Bytes& b : by_ranks(1, config, {.plan = all_reduce_at_once})) {
    EXPECT_EQ(b == alone(config), true);
  }
}

TEST(DataParallel, AllRanksSayOfAnEpochWhatOneProcessSays) {
  const TrainerConfig config = config_of({}, 4);
  const Model m = small_net(true, 0.3, 9);
  Trainer one(m, testing::weights_of(m), testing::cpu(), config);
  TensorDataset data = stripes(kRows, 3);
  EpochResult expected;
  ASSERT_TRUE(one.train_epoch(data, expected));
  EXPECT_TRUE(expected.top5 > expected.top1 && expected.top5 < 1) << expected.top5;
  auto transports = memory_transports(3);
  std::vector<std::jthread> threads;
  for (size_t r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      DataParallel training(m, testing::weights_of(m), testing::cpu(), config,
                            talk(std::move(transports[r])), {.plan = all_reduce_at_once});
      TensorDataset own = stripes(kRows, 3);
      EpochResult result;
      EXPECT_TRUE(training.train_epoch(own, result));
      EXPECT_EQ(result.loss, expected.loss);
      EXPECT_EQ(result.top1, expected.top1);
      EXPECT_EQ(result.top5, expected.top5);
      training.barrier();
    });
  }
}

// Steps of all rows, so that both do the same rows in each.
TEST(DataParallel, WithoutBatchStatisticsAndDropoutShardsGiveTheSameButForRounding) {
  const Model m = small_net(false, 0);
  const auto after = [&](int shards) {
    TrainerConfig config = config_of({.kind = OptimizerConfig::Kind::kSgd}, shards);
    config.batch = kRows;
    config.epochs = 10;
    Trainer trainer(m, testing::weights_of(m), testing::cpu(), config);
    TensorDataset data = stripes(kRows, 3);
    EpochResult result;
    for (int64_t e = 0; e < config.epochs; ++e) EXPECT_TRUE(trainer.train_epoch(data, result));
    return trainer.checkpoint().parameters;
  };
  const auto one = after(1), eight = after(8);
  for (const auto& [name, t] : one) {
    const auto a = t.as<float>(), b = eight.at(name).as<float>();
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6) << name;
    EXPECT_FALSE(std::ranges::equal(a, m.initialisers.at(name).as<float>())) << name;
  }
}

TEST(DataParallel, StopsOnAllRanksAfterTheSameStepAndGoesOnWithTheSameBytesOnAnotherNumber) {
  const TrainerConfig config = config_of({}, 4);
  const Bytes expected = alone(config);
  auto transports = memory_transports(2);
  std::vector<Checkpoint> stopped(2);
  std::vector<std::jthread> threads;
  for (size_t r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      const Model m = small_net(true, 0.3);
      DataParallel training(m, testing::weights_of(m), testing::cpu(), config,
                            talk(std::move(transports[r])), {.plan = all_reduce_at_once});
      TensorDataset data = stripes(kRows, 3);
      EpochResult result;
      EXPECT_FALSE(training.train_epoch(data, result,
                                        [&](int64_t done, int64_t) { return r == 0 || done < 1; }));
      stopped[r] = training.checkpoint();
      training.barrier();
    });
  }
  threads.clear();
  EXPECT_EQ(stopped[0].step, 2);
  EXPECT_EQ(bytes_of(stopped[0]), bytes_of(stopped[1]));
  const Model m = small_net(true, 0.3);
  Trainer trainer(m, testing::weights_of(m), testing::cpu(), config);
  trainer.restore(stopped[0]);
  EXPECT_EQ(train(trainer) == expected, true);
}

TEST(DataParallel, FewerShardsThanRanksAreRefused) {
  auto transports = memory_transports(3);
  const Model m = small_net(true, 0.3);
  EXPECT_THAT(testing::error_of([&] {
                DataParallel(m, testing::weights_of(m), testing::cpu(), config_of({}, 2),
                             talk(std::move(transports[0])), {.plan = all_reduce_at_once});
              }),
              ::testing::HasSubstr("3 ranks but 2 shards"));
}

}  // namespace
}  // namespace ndtrain
