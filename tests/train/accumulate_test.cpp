// Steps that are computed in parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"
#include "tests/train/small_net.h"

namespace ndtrain {
namespace {

using testing::cpu;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::small_net;
using testing::stripes;
using testing::weights_of;

TrainerConfig in_parts(int64_t batch, int64_t parts, int shards = 1) {
  return {.epochs = 2,
          .batch = batch,
          .optimizer = {.kind = OptimizerConfig::Kind::kSgd},
          .schedule = {.lr = 0.1},
          .seed = 5,
          .accumulate = parts,
          .shards = shards};
}

Checkpoint trained(const Model& m, const TrainerConfig& config, int64_t rows) {
  Trainer trainer(m, weights_of(m), cpu(), config);
  TensorDataset data = stripes(rows, 3);
  EpochResult result;
  while (trainer.epoch() < config.epochs) EXPECT_TRUE(trainer.train_epoch(data, result));
  return trainer.checkpoint();
}

TEST(Accumulate, GivesTheStepOfTheWholeBatchButForRounding) {
  const Model m = small_net(false, 0);
  for (const int shards : {1, 3}) {
    const Checkpoint whole = trained(m, in_parts(24, 1, shards), 70);
    for (const int64_t parts : {2, 3, 5, 8}) {
      const Checkpoint c = trained(m, in_parts(24, parts, shards), 70);
      EXPECT_EQ(c.optimizer_steps, whole.optimizer_steps);
      for (const auto& [name, t] : whole.parameters) {
        const std::vector<double> a = t.to_doubles(), b = c.parameters.at(name).to_doubles();
        for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << name << parts;
        EXPECT_FALSE(t.same_bytes(m.initialisers.at(name))) << name;
      }
    }
  }
}

// Each part is a batch to them, as where each is a step; nothing else moves.
TEST(Accumulate, RunningStatisticsAreThoseOfStepsOfAPartEach) {
  const Model m = small_net(true, 0);
  TrainerConfig whole = in_parts(24, 3), steps = in_parts(8, 1);
  whole.schedule.lr = steps.schedule.lr = 0;
  const Checkpoint a = trained(m, whole, 72), b = trained(m, steps, 72);
  for (const auto& [name, t] : b.states) {
    EXPECT_TRUE(a.states.at(name).same_bytes(t)) << name;
    EXPECT_FALSE(m.initialisers.at(name).same_bytes(t)) << name;
  }
}

TEST(Accumulate, LossAndHitsAreOfAllParts) {
  const Model m = small_net(false, 0);
  TrainerConfig config = in_parts(24, 1);
  config.schedule.lr = 0;
  const auto epoch = [&](int64_t parts) {
    config.accumulate = parts;
    Trainer trainer(m, weights_of(m), cpu(), config);
    TensorDataset data = stripes(70, 3);
    EpochResult result;
    EXPECT_TRUE(trainer.train_epoch(data, result));
    return result;
  };
  const EpochResult one = epoch(1), four = epoch(4);
  EXPECT_NEAR(four.loss, one.loss, 1e-6);
  EXPECT_EQ(four.top1, one.top1);
  EXPECT_GT(one.top1, 0);
}

// Notes how many rows are asked for at once.
class Watched final : public Dataset {
 public:
  explicit Watched(TensorDataset data) : data_(std::move(data)) {}
  int64_t size() const override { return data_.size(); }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override {
    fetched.push_back(std::ssize(rows));
    data_.fetch(rows, inputs, labels);
  }
  std::vector<int64_t> fetched;

 private:
  TensorDataset data_;
};

std::vector<int64_t> fetched_in_an_epoch(bool batch_norm, int64_t batch, int64_t parts,
                                         int64_t rows) {
  const Model m = small_net(batch_norm, 0);
  Trainer trainer(m, weights_of(m), cpu(), in_parts(batch, parts));
  Watched data(stripes(rows, 3));
  EpochResult result;
  EXPECT_TRUE(trainer.train_epoch(data, result));
  return data.fetched;
}

TEST(Accumulate, APartHasItsShareOfTheBatchAndTheLastStepFewerParts) {
  EXPECT_THAT(fetched_in_an_epoch(false, 10, 4, 17), ElementsAre(2, 3, 2, 3, 2, 2, 3));
  EXPECT_THAT(fetched_in_an_epoch(true, 8, 4, 13), ElementsAre(2, 2, 2, 2, 2, 3))
      << "no part of a single row, whose batch statistics are poor";
  EXPECT_THAT(fetched_in_an_epoch(true, 3, 3, 3), ElementsAre(1, 1, 1)) << "asked for";
}

TEST(Accumulate, EachPartHasADropoutOfItsOwn) {
  EXPECT_EQ(seed_of_part(5, 2, 0), seed_of_shard(5, 2));
  EXPECT_NE(seed_of_part(5, 2, 1), seed_of_part(5, 2, 0));
  EXPECT_NE(seed_of_part(5, 2, 1), seed_of_part(5, 2, 2));
  EXPECT_NE(seed_of_part(5, 2, 1), seed_of_part(5, 1, 1));
}

TEST(Accumulate, PartsWithoutRowsAreRefused) {
  const Model m = small_net(false, 0);
  const auto refusal = [&](const TrainerConfig& config) {
    return error_of([&] { Trainer(m, weights_of(m), cpu(), config); });
  };
  EXPECT_THAT(refusal(in_parts(8, 0)), HasSubstr("at least one part, not 0"));
  EXPECT_THAT(refusal(in_parts(8, 3, 4)), HasSubstr("a batch of 8 is not enough for 3 parts of 4"));
  EXPECT_EQ(refusal(in_parts(8, 2, 4)), "no error");
}

}  // namespace
}  // namespace ndtrain
