// Ranks that send some of their gradients: against one process where all are sent, and one another.
#include "framework/sparse/sync/sparse_sync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/parallel/between_ranks.h"
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
    for (const DType wire : {DType::kF32, DType::kBF16}) {
      const SparseSyncOptions options{
          .compressor = std::string(name), .drop = 0.9, .wire = wire, .seed = 3};
      const Trained t = train_sparsely(4, config_of({}, 8), options);
      for (const Bytes& b : t.bytes) EXPECT_EQ(b == t.bytes[0], true) << name;
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
}

// One tensor of `kElements` on a rank, without a Trainer around it.
class OneTensor {
 public:
  static constexpr int64_t kElements = 1000;

  OneTensor(Communicator& communicator, int rank, int ranks, const OptimizerConfig& optimizer,
            const SparseSyncOptions& options, double rate = 1)
      : rate_(rate),
        parameters_(parameters()),
        optimizer_(optimizer, parameters_, cpu()),
        sums_(parameters_.size(), {rank, rank + 1}, ranks, cpu(), parameters_.gradients()),
        sync_({parameters_, optimizer_, sums_, nullptr, cpu()}, communicator,
              shards_of_ranks(ranks, std::vector<double>(static_cast<size_t>(ranks), 1)), options),
        rank_(rank),
        reports_(static_cast<size_t>(ranks)) {}

  void step(const std::vector<float>& gradient) {
    begin();
    end(gradient);
  }
  void begin() { sync_.begin(optimizer_.next(rate_)); }
  void flush() { sync_.flush(); }
  void end(const std::vector<float>& gradient) {
    std::ranges::copy(gradient, sums_.shard(rank_));
    sums_.add(rank_, {0, parameters_.size()});
    sync_.share(reports_);
    sync_.backward_done();
  }
  std::vector<float> values() const {
    return {parameters_.values(), parameters_.values() + kElements};
  }
  const SparseSync& sync() const { return sync_; }
  int64_t steps() const { return optimizer_.steps(); }

 private:
  static ParameterSpace parameters() {
    Graph g;
    const ValueId w = g.add_param("w", Tensor({DType::kF32, {kElements}}));
    return {g, std::vector{w}, cpu()};
  }

  const double rate_;
  ParameterSpace parameters_;
  Optimizer optimizer_;
  ShardSums sums_;
  SparseSync sync_;
  int rank_;
  std::vector<ShardReport> reports_;
};

void on_ranks(int ranks, const std::function<void(Communicator& communicator, int rank)>& f) {
  auto transports = memory_transports(ranks);
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const auto communicator = talk(std::move(transports[static_cast<size_t>(r)]));
      f(*communicator, r);
      barrier(*communicator);
    });
  }
}

std::vector<float> whole_numbers(int rank, int step) {
  const Rng rng(static_cast<uint64_t>(100 * rank + step), "gradient");
  std::vector<float> g(OneTensor::kElements);
  for (size_t i = 0; i < g.size(); ++i) {
    g[i] = static_cast<float>(static_cast<int64_t>(rng.bits(i) % 201) - 100);
  }
  return g;
}

// SGD at rate 1 without momentum: what has left the parameters is what was sent.
TEST(SparseSync, WhatIsSentAndWhatIsLeftAreTheGradients) {
  constexpr int kSteps = 25;
  for (const int ranks : {1, 2, 4}) {
    std::vector<float> sum(OneTensor::kElements, 0);
    for (int r = 0; r < ranks; ++r) {
      for (int step = 0; step < kSteps; ++step) {
        const std::vector<float> g = whole_numbers(r, step);
        for (size_t i = 0; i < g.size(); ++i) sum[i] += g[i];
      }
    }
    std::vector<std::vector<float>> left(static_cast<size_t>(ranks)), values = left;
    on_ranks(ranks, [&](Communicator& communicator, int rank) {
      OneTensor one(communicator, rank, ranks, {.kind = OptimizerConfig::Kind::kSgd, .momentum = 0},
                    {.drop = 0.95});
      for (int step = 0; step < kSteps; ++step) one.step(whole_numbers(rank, step));
      const auto r = static_cast<size_t>(rank);
      left[r].assign(one.sync().feedback().left(0).begin(), one.sync().feedback().left(0).end());
      values[r] = one.values();
    });
    for (size_t i = 0; i < sum.size(); ++i) {
      float rest = 0;
      for (const std::vector<float>& l : left) rest += l[i];
      ASSERT_EQ(rest - values[0][i], sum[i]) << ranks << " ranks, element " << i;
      for (const std::vector<float>& v : values) ASSERT_EQ(v[i], values[0][i]);
    }
  }
}

// Four ranks, whose selections are added up in their order: against values and momentum of each
// version, where a gradient is a function of what it is computed with.
TEST(SparseSync, SomeStepsLateFourRanksAreASerialProgram) {
  constexpr int kSteps = 12, kRanks = 4;
  constexpr float kMomentum = 0.5F, kRate = 0.25F;
  const auto gradient = [](const std::vector<float>& values, int rank, int step) {
    std::vector<float> g = whole_numbers(rank, step);
    for (size_t i = 0; i < g.size(); ++i) g[i] = 0.01F * g[i] + 0.1F * values[i];
    return g;
  };
  for (const int staleness : {0, 1, 2}) {
    using Values = std::vector<float>;
    std::vector<Values> versions = {Values(OneTensor::kElements, 0)};
    Values momentum(OneTensor::kElements, 0);
    for (int t = 0; t < kSteps; ++t) {
      const Values& seen = versions[static_cast<size_t>(std::max(0, t - staleness))];
      Values sum = gradient(seen, 0, t), next = versions.back();
      for (int r = 1; r < kRanks; ++r) {
        const Values g = gradient(seen, r, t);
        for (size_t i = 0; i < g.size(); ++i) sum[i] += g[i];
      }
      for (size_t i = 0; i < sum.size(); ++i) {
        momentum[i] = kMomentum * momentum[i] + sum[i];
        next[i] -= kRate * momentum[i];
      }
      versions.push_back(std::move(next));
    }
    on_ranks(kRanks, [&](Communicator& communicator, int rank) {
      OneTensor one(communicator, rank, kRanks,
                    {.kind = OptimizerConfig::Kind::kSgd, .momentum = kMomentum},
                    {.drop = 0, .staleness = staleness}, kRate);
      for (int t = 0; t < kSteps; ++t) {
        one.begin();
        EXPECT_EQ(one.values(), versions[static_cast<size_t>(std::max(0, t - staleness))]);
        one.end(gradient(one.values(), rank, t));
      }
      one.flush();
      EXPECT_EQ(one.values(), versions.back());
    });
  }
}

TEST(SparseSync, AGradientThatIsNotFiniteIsLeftOutOnAllRanks) {
  for (const int staleness : {0, 2}) {
    on_ranks(2, [staleness](Communicator& communicator, int rank) {
      OneTensor one(communicator, rank, 2, {.kind = OptimizerConfig::Kind::kSgd},
                    {.drop = 0.9, .staleness = staleness});
      one.step(whole_numbers(rank, 0));
      one.flush();
      const std::vector<float> values = one.values();
      const auto state = one.sync().state().at("w.residual");
      std::vector<float> bad = whole_numbers(rank, 1);
      if (rank == 1) bad[7] = NAN;
      one.step(bad);
      one.flush();
      EXPECT_EQ(one.values(), values);
      EXPECT_TRUE(
          std::ranges::equal(one.sync().state().at("w.residual").as<float>(), state.as<float>()));
      EXPECT_EQ(one.sync().left_out(), 1);
      EXPECT_EQ(one.steps(), 1);
      one.step(whole_numbers(rank, 2));
      one.flush();
      EXPECT_NE(one.values(), values);
    });
  }
}

TEST(SparseSync, RanksThatSendAnotherNumberOfElementsAreNamed) {
  on_ranks(2, [](Communicator& communicator, int rank) {
    OneTensor one(communicator, rank, 2, {}, {.drop = rank == 0 ? 0.75 : 0.5});
    EXPECT_THAT(
        error_of([&] { one.step(whole_numbers(rank, 0)); }),
        ::testing::HasSubstr(rank == 0 ? "rank 1, w: 250 elements were sent, 125 are expected"
                                       : "rank 0, w: 125 elements were sent, 250 are"));
  });
}

TEST(SparseSync, RefusesWhatDoesNotGoTogether) {
  on_ranks(1, [](Communicator& communicator, int rank) {
    const auto made = [&](const OptimizerConfig& optimizer, const SparseSyncOptions& options) {
      return error_of([&] { OneTensor(communicator, rank, 1, optimizer, options); });
    };
    EXPECT_THAT(made({.clip_norm = 1}, {}), ::testing::HasSubstr("are not clipped"));
    EXPECT_THAT(made({}, {.compressor = "randomk", .compressing = {.unbiased = true}}),
                ::testing::HasSubstr("would count twice"));
    EXPECT_THAT(made({}, {.momentum = 0.9}), ::testing::HasSubstr("is sgd without"));
    EXPECT_THAT(made({.kind = OptimizerConfig::Kind::kSgd, .momentum = 0}, {.momentum = 1}),
                ::testing::HasSubstr("momentum is 1: 0 to below 1"));
    EXPECT_THAT(made({}, {.first_drops = {0.5, 2}}), ::testing::HasSubstr("drop is 2"));
    EXPECT_THAT(made({}, {.staleness = 17}), ::testing::HasSubstr("staleness is 17: 0 to 16"));
    EXPECT_THAT(made({}, {.drop = 1}), ::testing::HasSubstr("drop is 1"));
    EXPECT_THAT(made({}, {.compressor = "best"}), ::testing::HasSubstr("no compressor 'best'"));
    EXPECT_THAT(made({}, {.wire = DType::kI8}), ::testing::HasSubstr("not as i8"));
  });
}

}  // namespace
}  // namespace ndtrain
