// Ranks that send some of their gradients: against one process where all are sent, and one another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "framework/parallel/between_ranks.h"
#include "framework/sparse/sync/sparse_sync.h"
#include "tests/parallel/training_by_ranks.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h

// What each rank has after each epoch; and its losses.
struct Trained {
  std::vector<Bytes> bytes;
  std::vector<double> losses;
  int64_t sent_bytes = 0;
};

Trained train_sparsely(int ranks, const TrainerConfig& config, const SparseSyncOptions& options,
                       int64_t epochs = kEpochs) {
  auto transports = memory_transports(ranks);
  Trained all{.bytes = std::vector<Bytes>(static_cast<size_t>(ranks)), .losses = {}};
  const std::vector<double> equal(static_cast<size_t>(ranks), 1);
  const std::vector<int> first_shards = shards_of_ranks(config.shards, equal);
  std::vector<std::jthread> threads;
  for (size_t r = 0; r < all.bytes.size(); ++r) {
    threads.emplace_back([&, r] {
      const auto communicator = talk(std::move(transports[r]));
      TrainerConfig own = config;
      own.own_shards = {first_shards[r], first_shards[r + 1]};
      const SparseSync* sync = nullptr;
      const Model m = small_net(true, 0.3);
      Trainer trainer(m, weights_of(m), cpu(), own, [&](const Trainer::Shared& shared) {
        auto made = std::make_unique<SparseSync>(shared, *communicator, first_shards, options);
        sync = made.get();
        return made;
      });
      TensorDataset data = stripes(kRows, 3);
      for (int64_t e = 0; e < epochs; ++e) {
        EpochResult result;
        EXPECT_TRUE(trainer.train_epoch(data, result));
        all.bytes[r].push_back(bytes_of(trainer.checkpoint(), result));
        if (r == 0) all.losses.push_back(result.loss);
      }
      if (r == 0) all.sent_bytes = sync->sent_bytes();
      barrier(*communicator);
    });
  }
  threads.clear();
  return all;
}

std::vector<OptimizerConfig> optimizers() {
  return {{.kind = OptimizerConfig::Kind::kSgd, .weight_decay = 0.01},
          {.kind = OptimizerConfig::Kind::kSgd, .dampening = 0.2},
          {.kind = OptimizerConfig::Kind::kAdam},
          {.kind = OptimizerConfig::Kind::kRmsProp}};
}

TEST(SparseSync, OfWholeGradientsGivesTheBytesOfOneProcess) {
  for (const OptimizerConfig& optimizer : optimizers()) {
    for (const int ranks : {1, 2, 3}) {
      const TrainerConfig config = config_of(optimizer, ranks);
      const Bytes expected = alone(config);
      for (const Bytes& b : train_sparsely(ranks, config, {.drop = 0}).bytes) {
        EXPECT_EQ(b == expected, true) << ranks << " ranks";
      }
    }
  }
}

TEST(SparseSync, AnyCompressorAndDropGiveAllRanksTheSameBytes) {
  for (const std::string_view name : compressor_names()) {
    for (const ValueCoding wire : value_codings()) {
      const SparseSyncOptions options{
          .compressor = std::string(name), .drop = 0.9, .wire = wire, .seed = 3};
      const Trained t = train_sparsely(4, config_of({}, 8), options);
      for (const Bytes& b : t.bytes) EXPECT_EQ(b == t.bytes[0], true) << name << name_of(wire);
    }
  }
}

TEST(SparseSync, LearnsWithFewOfTheElements) {
  TrainerConfig config = config_of({}, 2);
  config.epochs = 30;
  config.schedule = {.kind = Schedule::Kind::kConstant, .lr = 0.02};
  const Trained whole = train_sparsely(2, config, {.drop = 0}, config.epochs);
  const Trained few = train_sparsely(2, config, {.drop = 0.5}, config.epochs);
  const double learnt = whole.losses.front() - whole.losses.back();
  EXPECT_GT(few.losses.front() - few.losses.back(), 0.6 * learnt);
  EXPECT_LT(few.sent_bytes, whole.sent_bytes / 2);
  EXPECT_EQ(few.bytes[0] == whole.bytes[0], false);
  for (const ValueCoding wire : {ValueCoding::kInt8, ValueCoding::kInt4}) {
    const Trained less = train_sparsely(2, config, {.drop = 0.5, .wire = wire}, config.epochs);
    EXPECT_GT(less.losses.front() - less.losses.back(), 0.6 * learnt) << name_of(wire);
    EXPECT_LT(less.sent_bytes, few.sent_bytes * 6 / 10) << name_of(wire);
  }
}

TEST(SparseSync, ParametersHaveDropsOfTheirOwn) {
  const TrainerConfig config = config_of({}, 2);
  const auto drop = [&](double all, std::vector<std::pair<std::string, double>> own) {
    return train_sparsely(2, config, {.drop = all, .drops = std::move(own)});
  };
  const Trained few = drop(0.9, {}), whole = drop(0, {});
  const Trained some = drop(0.9, {{"conv.*", 0}});
  EXPECT_EQ(some.bytes[0] == some.bytes[1], true);
  EXPECT_GT(some.sent_bytes, few.sent_bytes);
  EXPECT_LT(some.sent_bytes, whole.sent_bytes);
  EXPECT_EQ(drop(0.9, {{"*", 0}}).bytes[0] == whole.bytes[0], true);
  EXPECT_EQ(drop(0, {{"*", 0}, {"*", 0.9}}).bytes[0] == few.bytes[0], true);
}

}  // namespace
}  // namespace ndtrain
