// Ranks against one process that does all the shards: the same bytes.
#include "framework/parallel/data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "framework/comm/memory_transport.h"
#include "framework/parallel/plan_by_sizes.h"
#include "framework/parallel/schedules/schedules.h"
#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"
#include "tests/train/small_net.h"

namespace ndtrain {
namespace {

using testing::bytes_of;
using testing::small_net;
using testing::stripes;

constexpr int64_t kRows = 70, kEpochs = 2;

TrainerConfig config_of(const OptimizerConfig& optimizer, int shards) {
  return {.epochs = kEpochs,
          .batch = 24,
          .optimizer = optimizer,
          .schedule = {.kind = Schedule::Kind::kCosine, .lr = 0.01},
          .seed = 5,
          .shards = shards};
}

// Everything after each epoch.
using Bytes = std::vector<std::string>;

Bytes train(Training& training) {
  TensorDataset data = stripes(kRows, 3);
  Bytes bytes;
  for (int64_t e = 0; e < kEpochs; ++e) {
    EpochResult result;
    EXPECT_TRUE(training.train_epoch(data, result, {}));
    bytes.push_back(bytes_of(training.checkpoint()) + " " + std::to_string(result.loss) + " " +
                    std::to_string(result.top1));
  }
  return bytes;
}

Bytes alone(const TrainerConfig& config) {
  const Model m = small_net(true, 0.3);
  Trainer trainer(m, testing::weights_of(m), testing::cpu(), config);
  return train(trainer);
}

std::unique_ptr<Communicator> talk(std::unique_ptr<Transport> transport) {
  return std::make_unique<Communicator>(std::move(transport),
                                        Communicator::Options{.in_flight = 1});
}

// A layer a bucket, from the back.
std::vector<ParameterRange> slots_from_front(const ParameterSpace& parameters) {
  std::vector<ParameterRange> buckets;
  for (const ParameterSlot& s : parameters.slots()) buckets.insert(buckets.begin(), s.range);
  for (size_t i = 0; i + 1 < buckets.size(); ++i) buckets[i].begin = buckets[i + 1].end;
  buckets.front().end = parameters.size();
  return buckets;
}

using Kind = PlannedOp::Kind;

CommPlan all_reduce_at_once(const ParameterSpace& parameters) {
  return {
      .buckets = {{0, parameters.size()}}, .ops = {{Kind::kAllReduce, 0}}, .update_late = false};
}

CommPlan halves(const ParameterSpace& parameters, int prefetch) {
  CommPlan plan{.buckets = slots_from_front(parameters), .prefetch = prefetch};
  add_from_back(plan, Kind::kReduceScatter);
  add_from_front(plan, Kind::kAllGather);
  return plan;
}

CommPlan by_rank_0(const ParameterSpace& parameters) {
  CommPlan plan{.buckets = slots_from_front(parameters)};
  add_from_back(plan, Kind::kReduce);
  add_from_front(plan, Kind::kBroadcast);
  return plan;
}

// Buckets that do not end where slots do.
CommPlan pieces_of_32(const ParameterSpace& parameters) {
  CommPlan plan;
  for (int64_t end = parameters.size(); end > 0; end -= 32) {
    plan.buckets.push_back({std::max<int64_t>(end - 32, 0), end});
  }
  add_from_back(plan, Kind::kAllReduce);
  return plan;
}

// R3 R2+A3 R1+A2 …
CommPlan grouped(const ParameterSpace& parameters) {
  CommPlan plan{.buckets = slots_from_front(parameters)};
  const int last = static_cast<int>(plan.buckets.size()) - 1;
  for (int b = last; b >= 0; --b) {
    plan.ops.push_back({Kind::kReduceScatter, b});
    if (b < last) plan.ops.push_back({Kind::kAllGather, b + 1, true});
  }
  plan.ops.push_back({Kind::kAllGather, 0});
  return plan;
}

std::vector<Bytes> by_ranks(int ranks, const TrainerConfig& config,
                            const DataParallel::Options& options) {
  auto transports = memory_transports(ranks);
  std::vector<Bytes> bytes(static_cast<size_t>(ranks));
  std::vector<std::jthread> threads;
  for (size_t r = 0; r < bytes.size(); ++r) {
    threads.emplace_back([&, r] {
      const Model m = small_net(true, 0.3);
      DataParallel training(m, testing::weights_of(m), testing::cpu(), config,
                            talk(std::move(transports[r])), options);
      bytes[r] = train(training);
      training.barrier();
    });
  }
  threads.clear();
  return bytes;
}

// As if layers took times that let the schedules differ.
CostProfile with_times(const ParameterSpace& parameters) {
  CostProfile costs = sizes_of(parameters, 4);
  for (CostProfile::Layer& l : costs.layers) l.forward_s = l.backward_s = 1e-3;
  for (auto* c : {&costs.reduce_scatter, &costs.all_gather, &costs.reduce, &costs.broadcast}) {
    *c = {.alpha_s = 2e-4, .beta_s_per_byte = 1e-6};
  }
  costs.all_reduce = {.alpha_s = 4e-4, .beta_s_per_byte = 2e-6};
  return costs;
}

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
  for (const NamedSchedule& s : schedules()) {
    plans.emplace_back(s.name, [name = s.name](const ParameterSpace& parameters) {
      return make_comm_plan(name, with_times(parameters));
    });
  }
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
