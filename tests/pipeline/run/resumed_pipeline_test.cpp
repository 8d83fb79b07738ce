// Checkpoints of trainings by stages are those of one process: whoever goes on gives its bytes.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <optional>

#include "framework/train/switched_training.h"
#include "tests/pipeline/run/training_by_stages.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_stages.h

Network resumed_net() { return network(skipping_net(true, 0.3)); }

// The rest of what is to be trained, from a checkpoint in the middle of the first epoch.
Bytes go_on(Training& training, const Checkpoint& from) {
  training.restore(from);
  return train(training);
}

// Stopped by one of its ranks after `steps`: all of them stop there.
Checkpoint stopped_by_stages(int64_t steps, const TrainerConfig& config) {
  std::optional<Checkpoint> all;
  std::mutex mutex;
  by_stages(3, resumed_net(), config, {.schedule = "1f1b"}, [&](PipelineTraining& training) {
    TensorDataset data = stripes(kRows, 3);
    EpochResult result;
    const bool stops = training.communicator().rank() == 1;
    EXPECT_FALSE(training.train_epoch(
        data, result, [&](int64_t done, int64_t) { return !stops || done < steps; }));
    const Checkpoint c = training.checkpoint();
    EXPECT_EQ(c.step, steps);
    const std::lock_guard lock(mutex);
    if (all) {
      EXPECT_EQ(bytes_of(*all), bytes_of(c)) << "ranks differ";
    }
    all = c;
  });
  return *all;
}

Checkpoint stopped_alone(int64_t steps, const TrainerConfig& config) {
  Trainer trainer(resumed_net().model, resumed_net().trained, cpu(), config);
  TensorDataset data = stripes(kRows, 3);
  EpochResult result;
  EXPECT_FALSE(
      trainer.train_epoch(data, result, [&](int64_t done, int64_t) { return done < steps; }));
  return trainer.checkpoint();
}

TEST(ResumedPipeline, WhatIsRestoredIsNotGatheredAgain) {
  const TrainerConfig config = config_by_parts(4, {.kind = OptimizerConfig::Kind::kAdam});
  const Checkpoint middle = stopped_by_stages(2, config);
  by_stages(3, resumed_net(), config, {}, [&](PipelineTraining& training) {
    EXPECT_FALSE(training.gathered());
    training.restore(middle);
    EXPECT_TRUE(training.gathered());
    EXPECT_EQ(bytes_of(training.checkpoint()), bytes_of(middle));
    training.reset_optimizer();
    EXPECT_FALSE(training.gathered());
  });
}

TEST(ResumedPipeline, GoesOnByOneProcessOrByOtherStagesToTheSameBytes) {
  const TrainerConfig config = config_by_parts(4);
  const Bytes whole = alone(resumed_net(), config);
  const Checkpoint middle = stopped_by_stages(2, config);
  EXPECT_EQ(bytes_of(middle), bytes_of(stopped_alone(2, config)));
  Trainer one(resumed_net().model, resumed_net().trained, cpu(), config);
  EXPECT_EQ(go_on(one, middle) == whole, true) << "other bytes";
  for (const char* schedule : {"zb", "gpipe"}) {
    for (const int ranks : {2, 4}) {
      SCOPED_TRACE(std::string(schedule) + ", ranks: " + std::to_string(ranks));
      by_stages(ranks, resumed_net(), config, {.schedule = schedule},
                [&](PipelineTraining& training) {
                  EXPECT_EQ(go_on(training, middle) == whole, true) << "other bytes";
                });
    }
  }
}

TEST(ResumedPipeline, GoesOnByRanksThatShareRowsAsOneProcessWould) {
  TrainerConfig config = config_by_parts(2);
  const Checkpoint middle = stopped_by_stages(2, config);
  config.shards = 2;
  Trainer one(resumed_net().model, resumed_net().trained, cpu(), config);
  const Bytes expected = go_on(one, middle);
  auto transports = memory_transports(2);
  std::vector<std::jthread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&] {
      DataParallel training(resumed_net().model, resumed_net().trained, cpu(), config,
                            talk(std::move(transport)), {.plan = all_reduce_at_once});
      EXPECT_EQ(go_on(training, middle) == expected, true) << "other bytes";
      training.barrier();
    });
  }
}

// Ranks that share rows become stages, of which one is on two of them, and talk by what they have
// talked by; against one process up to there, and other ranks that go on.
TEST(SwitchedTraining, GivesTheBytesOfAStopAndAResumption) {
  const TrainerConfig config = config_by_parts(2);
  TrainerConfig shared = config;
  shared.shards = 3;
  const PipelineTraining::Options stages{.replicas = {1, 2}};
  Trainer one(resumed_net().model, resumed_net().trained, cpu(), shared);
  const Bytes first = train(one, 1);
  const Checkpoint between = one.checkpoint();
  Bytes second;
  by_stages(3, resumed_net(), config, stages, [&](PipelineTraining& training) {
    training.restore(between);
    training.scale_lr(0.5);
    const Bytes bytes = train(training, 1);
    if (training.communicator().rank() == 0) second = bytes;
  });
  auto transports = memory_transports(3);
  std::vector<std::jthread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&] {
      auto by_rows = std::make_unique<DataParallel>(
          resumed_net().model, resumed_net().trained, cpu(), shared, talk(std::move(transport)),
          DataParallel::Options{.plan = all_reduce_at_once});
      std::unique_ptr<PipelineTraining> by_layers;
      SwitchedTraining training(*by_rows, 1, [&]() -> Training& {
        auto communicator = by_rows->take_communicator();
        by_rows.reset();
        by_layers =
            std::make_unique<PipelineTraining>(resumed_net().model, resumed_net().trained, cpu(),
                                               config, std::move(communicator), stages);
        return *by_layers;
      });
      EXPECT_EQ(train(training, 1) == first, true) << "other bytes";
      training.scale_lr(0.5);
      EXPECT_EQ(train(training, 1) == second, true) << "other bytes";
      EXPECT_EQ(training.epoch(), 2);
      barrier(by_layers->communicator());
    });
  }
}

TEST(ResumedPipeline, WithoutItsPastIsOneProcessWithoutIt) {
  const TrainerConfig config = config_by_parts(2);
  const auto drive = [](Training& training) {
    TensorDataset data = stripes(kRows, 3);
    Bytes bytes = train(training, data, 1);
    training.reset_optimizer();
    training.scale_lr(0.5);
    bytes.push_back(train(training, data, 1)[0]);
    return bytes;
  };
  Trainer one(resumed_net().model, resumed_net().trained, cpu(), config);
  const Bytes expected = drive(one);
  by_stages(2, resumed_net(), config, {}, [&](PipelineTraining& training) {
    EXPECT_EQ(drive(training) == expected, true) << "other bytes";
  });
}

TEST(ResumedPipeline, ACheckpointThatDoesNotFitIsRefusedByAllRanks) {
  const TrainerConfig config = config_by_parts(2);
  const Checkpoint whole = stopped_alone(1, config);
  by_stages(3, resumed_net(), config, {}, [&](PipelineTraining& training) {
    for (const char* name : {"stem.w", "fc.w"}) {
      Checkpoint c = whole;
      c.parameters.erase(name);
      EXPECT_EQ(error_of([&] { training.restore(c); }),
                "checkpoint: parameter '" + std::string(name) + "' is missing");
    }
    Checkpoint c = whole;
    c.step = -1;
    EXPECT_EQ(error_of([&] { training.restore(c); }),
              "checkpoint: epoch 0, step -1 is no place to go on from");
  });
}

}  // namespace
}  // namespace ndtrain
