// Trainings by stages whose parameters are some updates old, against a serial program of the same
// delays: the same bytes.
#include <gtest/gtest.h>

#include "tests/pipeline/run/delayed_program.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_stages.h

using Kind = OptimizerConfig::Kind;

TrainerConfig many_steps(int64_t parts, const OptimizerConfig& optimizer = {}) {
  TrainerConfig config = config_by_parts(parts, optimizer);
  config.batch = 10;  // 7 steps an epoch
  return config;
}

// By how many updates each stage is late: stage 0 of 4 by 3 ("async"), all trained ones by 1.
int delay_of(std::string_view schedule, int stage, int stages) {
  return schedule == "async" ? stages - 1 - stage : 1;
}

struct Case {
  const char* schedule = "async";
  int ranks = 3;
  int64_t drain_every = 100;
  uint64_t seed = 1;  // of the cut
  Staleness staleness = {};
};

StepGraph step_of(const Network& n, const TrainerConfig& config) {
  return make_step_graph(bind(n.model, 1), n.trained, 0, config.compute);
}

std::map<std::string, int> delays(const StepGraph& step, const Case& c) {
  const std::vector<Stage> stages = make_stages(step, random_cut(step, c.ranks, c.seed));
  std::map<std::string, int> delays;
  for (size_t s = 0; s < stages.size(); ++s) {
    for (const ValueId v : stages[s].parameters) {
      delays[step.graph.value(v).name] = delay_of(c.schedule, static_cast<int>(s), c.ranks);
    }
  }
  return delays;
}

PipelineTraining::Options options_of(const Case& c) {
  return {.schedule = c.schedule,
          .drain_every = c.drain_every,
          .staleness = c.staleness,
          .cut = [seed = c.seed](const StepGraph& step, int stages) {
            return random_cut(step, stages, seed);
          }};
}

Bytes serial(const Network& n, const TrainerConfig& config, const Case& c) {
  return DelayedProgram(n, config,
                        {.delays = delays(step_of(n, config), c),
                         .drain_every = c.drain_every,
                         .staleness = c.staleness})
      .train();
}

void expect_bytes_of_the_serial_program(const Network& n, const TrainerConfig& config,
                                        const Case& c) {
  SCOPED_TRACE(std::string(c.schedule) + ", ranks: " + std::to_string(c.ranks) +
               ", parts: " + std::to_string(config.accumulate) +
               ", drained every: " + std::to_string(c.drain_every));
  const Bytes expected = serial(n, config, c);
  for (const Bytes& b : by_stages(c.ranks, n, config, options_of(c))) {
    ASSERT_EQ(b == expected, true) << "other bytes";
  }
}

// So that the program is one: without a delay it is a Trainer.
TEST(DelayedProgram, WithoutDelaysHasTheBytesOfATrainer) {
  for (const bool statistics : {false, true}) {
    const Network n = network(skipping_net(statistics, 0.3));
    const TrainerConfig config = many_steps(3);
    std::map<std::string, int> none;
    for (const std::string& name : n.trained) none[name] = 0;
    const Bytes expected = alone(n, config);
    EXPECT_EQ(DelayedProgram(n, config, {.delays = none}).train() == expected, true);
    for (auto& [_, delay] : none) delay = 1;
    EXPECT_EQ(DelayedProgram(n, config, {.delays = none, .drain_every = 9}).train() == expected,
              false);
  }
}

TEST(AsynchronousPipeline, OfAnyOptimizerHasTheBytesOfASerialProgramWithDelays) {
  const Network n = network(skipping_net(true, 0.3));
  for (const OptimizerConfig& optimizer :
       {OptimizerConfig{.kind = Kind::kSgd, .weight_decay = 1e-3},
        OptimizerConfig{.kind = Kind::kSgd, .nesterov = true, .weight_decay = 1e-3},
        OptimizerConfig{.kind = Kind::kAdam}, OptimizerConfig{.kind = Kind::kAdam, .amsgrad = true},
        OptimizerConfig{.kind = Kind::kAdamW, .weight_decay = 1e-2},
        OptimizerConfig{.kind = Kind::kRmsProp, .centered = true},
        OptimizerConfig{.kind = Kind::kAdam, .ema = 0.8}}) {
    for (const int ranks : {1, 2, 3, 4}) {
      expect_bytes_of_the_serial_program(n, many_steps(2, optimizer),
                                         {.ranks = ranks, .seed = static_cast<uint64_t>(ranks)});
    }
  }
}

TEST(AsynchronousPipeline, OfAnyMicroBatchesAndDrainsHasTheBytesOfASerialProgram) {
  const Network n = network(skipping_net(true, 0.3));
  for (const char* schedule : {"async", "2bw"}) {
    for (const int64_t parts : {1, 3, 5}) {
      for (const int64_t drain_every : {1, 2, 3, 100}) {
        expect_bytes_of_the_serial_program(
            n, many_steps(parts),
            {.schedule = schedule, .ranks = 3, .drain_every = drain_every, .seed = 7});
      }
    }
  }
}

TEST(AsynchronousPipeline, WithFrozenStagesInFrontHasTheBytesOfASerialProgram) {
  const Network n = network(skipping_net(true, 0.3), {"stem", "a1", "a2"});
  for (const char* schedule : {"async", "2bw"}) {
    for (const uint64_t seed : {1, 2, 3}) {
      expect_bytes_of_the_serial_program(n, many_steps(2),
                                         {.schedule = schedule, .ranks = 4, .seed = seed});
    }
  }
}

TEST(AsynchronousPipeline, WithoutStatisticsAndInSixteenBitsHasTheBytesOfASerialProgram) {
  const Network n = network(skipping_net(false, 0.3));
  TrainerConfig config = many_steps(4);
  expect_bytes_of_the_serial_program(n, config, {.ranks = 4});
  config.compute = DType::kBF16;
  expect_bytes_of_the_serial_program(n, config, {.ranks = 2});
}

TEST(AsynchronousPipeline, WithWhatMakesUpForStalenessHasTheBytesOfASerialProgram) {
  const Network n = network(skipping_net(true, 0.3));
  const Bytes plain = serial(n, many_steps(2, {.kind = Kind::kSgd}), {.ranks = 4});
  for (const Staleness& staleness :
       {Staleness{.lr_scale_steps = 9}, Staleness{.predict = true}, Staleness{.compensation = 30},
        Staleness{.lr_scale_steps = 30, .predict = true, .compensation = 5}}) {
    for (const char* schedule : {"async", "2bw"}) {
      for (const int64_t drain_every : {3, 100}) {
        expect_bytes_of_the_serial_program(
            n, many_steps(2, {.kind = Kind::kSgd}),
            {.schedule = schedule, .ranks = 4, .drain_every = drain_every, .staleness = staleness});
      }
    }
    expect_bytes_of_the_serial_program(
        n, many_steps(2, {.kind = Kind::kRmsProp, .weight_decay = 1e-3}),
        {.ranks = 3, .staleness = staleness});
    EXPECT_FALSE(serial(n, many_steps(2, {.kind = Kind::kSgd}),
                        {.ranks = 4, .staleness = staleness}) == plain)
        << "it changes nothing";
  }
}

// Where it is drained, which is where others would have been: the same bytes as without a stop.
TEST(AsynchronousPipeline, StopsWhereItIsDrainedAndGoesOnToTheSameBytes) {
  const Network n = network(skipping_net(true, 0.3));
  const TrainerConfig config = many_steps(2);
  const Case c{.ranks = 3, .drain_every = 3};
  const Bytes whole = serial(n, config, c);
  by_stages(c.ranks, n, config, options_of(c), [&](PipelineTraining& training) {
    TensorDataset data = stripes(kRows, 3);
    EpochResult result;
    const bool stops = training.communicator().rank() == 1;
    int64_t last = 0;
    EXPECT_FALSE(training.train_epoch(data, result, [&](int64_t done, int64_t total) {
      EXPECT_EQ(done, last + 1);
      EXPECT_EQ(total, 7);
      last = done;
      return !stops || done < 4;
    }));
    EXPECT_EQ(last, 6);
    const Checkpoint middle = training.checkpoint();
    EXPECT_EQ(middle.step, 6);
    training.restore(middle);
    EXPECT_EQ(train(training) == whole, true) << "other bytes";
  });
}

TEST(AsynchronousPipeline, ThatDivergesSaysSoOnAllRanksAndIsRestored) {
  Network n = network(skipping_net(false, 0));
  TrainerConfig config = many_steps(2, {.kind = Kind::kSgd, .momentum = 0});
  config.schedule.lr = 1e30;
  by_stages(3, n, config, options_of({}), [&](PipelineTraining& training) {
    const Checkpoint before = training.checkpoint();
    TensorDataset data = stripes(kRows, 3);
    EpochResult result;
    const std::string why = error_of([&] { training.train_epoch(data, result, {}); });
    EXPECT_NE(why.find("the training has diverged"), std::string::npos) << why;
    EXPECT_EQ(why.find("epoch 1, step "), 0U) << why;
    training.restore(before);
    EXPECT_EQ(bytes_of(training.checkpoint()), bytes_of(before));
  });
}

}  // namespace
}  // namespace ndtrain
