// By sparse gradients.
#include "framework/sparse/sync/slow_link_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <stdexcept>

#include "framework/sparse/sync/sparse_sync.h"
#include "tests/sparse/slow_link_ranks.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h

SlowLinkWay sparse(const SparseSyncOptions& sync, SlowLinkTraining::Options options = {}) {
  return slow_link_way<SparseSync>(sync, std::move(options));
}

struct Way {
  const char* compressor;
  OptimizerConfig optimizer;
  bool lazy = false;
};

TEST(SlowLinkTraining, ResumedIsUnbroken) {
  constexpr auto kSgd = OptimizerConfig::Kind::kSgd;
  const std::vector<Way> ways = {
      {.compressor = "threshold-v16", .optimizer = {.kind = OptimizerConfig::Kind::kAdam}},
      {.compressor = "threshold-v", .optimizer = {.kind = kSgd}, .lazy = true},
      {.compressor = "randomk", .optimizer = {.kind = kSgd, .dampening = 0.2}},
      {.compressor = "efsignum", .optimizer = {.kind = kSgd}}};
  for (const auto& [compressor, optimizer, lazy] : ways) {
    const TrainerConfig config = config_of(optimizer, 4);
    const SlowLinkWay options = sparse({.compressor = compressor,
                                        .compressing = {.rotate = !lazy},
                                        .drop = 0.9,
                                        .optimizer = {.lazy = lazy}});
    MemoryFs fs;
    const Checkpoint saved = stopped_after(1, 2, config, options, fs);
    EXPECT_EQ(saved.step, 2) << "all ranks do one more step";
    const std::string expected = unbroken(2, config, options);
    for (const std::string& b : resumed(saved, 2, config, options, fs)) {
      EXPECT_EQ(b == expected, true) << compressor;
    }
  }
}

TEST(SlowLinkTraining, ResumedIsUnbrokenInPiecesAndOfTheLargestSums) {
  const TrainerConfig config = config_of({}, 4);
  for (const SparseSyncOptions& sync :
       {SparseSyncOptions{.drop = 0.9, .pieces = true},
        SparseSyncOptions{.compressor = "randomk", .drop = 0.9, .pieces = true, .seed = 3},
        SparseSyncOptions{.compressor = "topk", .drop = 0.9, .largest_of_sums = true}}) {
    const SlowLinkWay options = sparse(sync);
    MemoryFs fs;
    const Checkpoint saved = stopped_after(1, 4, config, options, fs);
    const std::string expected = unbroken(4, config, options);
    for (const std::string& b : resumed(saved, 4, config, options, fs)) {
      EXPECT_EQ(b == expected, true) << sync.compressor;
    }
  }
}

// As when rank 0 is killed before it has kept the newer one.
TEST(SlowLinkTraining, ResumedFromThePositionBeforeTheLastIsUnbroken) {
  const TrainerConfig config = config_of({}, 2);
  const SlowLinkWay options = sparse({.drop = 0.9});
  MemoryFs fs;
  Checkpoint first;
  on_ranks_that_train(2, config, options, &fs, [&](SlowLinkTraining& training, int rank) {
    (void)train_on(training, 1);
    const Checkpoint c = training.checkpoint();
    if (rank == 0) first = c;
    (void)train_on(training, 2);
  });
  const std::string expected = unbroken(2, config, options);
  for (const std::string& b : resumed(first, 2, config, options, fs)) {
    EXPECT_EQ(b == expected, true);
  }
}

TEST(SlowLinkTraining, ResumedIsUnbrokenWithMomentumOfGradients) {
  const TrainerConfig config = config_of({.kind = OptimizerConfig::Kind::kSgd, .momentum = 0}, 2);
  const SlowLinkWay options = sparse(deep_gradient_compression(0.9));
  MemoryFs fs;
  const Checkpoint saved = stopped_after(1, 2, config, options, fs);
  const std::string expected = unbroken(2, config, options);
  for (const std::string& b : resumed(saved, 2, config, options, fs)) {
    EXPECT_EQ(b == expected, true);
  }
}

// One process that keeps gradients for so many steps before it applies them, and applies all behind
// every `drain_every` steps and at the end of an epoch.
class DelayedSync final : public GradientSync {
 public:
  DelayedSync(const Trainer::Shared& shared, int delay) : shared_(shared), delay_(delay) {}

  void begin(const HyperParameters& hyper) override {
    while (std::ssize(pending_) > delay_) apply_oldest();
    hyper_ = hyper;
  }
  bool follows_the_run() const override { return false; }
  void backward_done() override {
    const float* const gradients = shared_.parameters.gradients();
    pending_.push_back({hyper_, {gradients, gradients + shared_.parameters.size()}});
  }
  void skip() override {}
  void flush() override {
    while (!pending_.empty()) apply_oldest();
  }

 private:
  void apply_oldest() {
    auto& [hyper, gradients] = pending_.front();
    ParameterSpace& p = shared_.parameters;
    shared_.optimizer.apply({0, p.size()}, hyper, gradients.data(), p.values(), p.values());
    pending_.pop_front();
  }

  Trainer::Shared shared_;
  const int delay_;
  HyperParameters hyper_;
  std::deque<std::pair<HyperParameters, std::vector<float>>> pending_;
};

std::string delayed(const TrainerConfig& config, int delay, int64_t drain_every) {
  const Model m = small_net(true, 0.3);
  DelayedSync* sync = nullptr;
  Trainer trainer(m, weights_of(m), cpu(), config, [&](const Trainer::Shared& shared) {
    auto made = std::make_unique<DelayedSync>(shared, delay);
    sync = made.get();
    return made;
  });
  return train_flushing(trainer, *sync, drain_every);
}

TEST(SlowLinkTraining, OfWholeGradientsAndSomeStepsLateIsADelayedProgram) {
  std::vector<std::string> others;
  for (const OptimizerConfig& optimizer : {OptimizerConfig{.kind = OptimizerConfig::Kind::kSgd},
                                           OptimizerConfig{.kind = OptimizerConfig::Kind::kAdam}}) {
    for (const int ranks : {2, 3}) {
      TrainerConfig config = config_of(optimizer, ranks);
      config.batch = 12;
      for (const int staleness : {0, 1, 2, 3}) {
        const std::string expected = delayed(config, staleness, 4);
        for (const std::string& other : others) ASSERT_EQ(other == expected, false);
        others.push_back(expected);
        on_ranks_that_train(ranks, config,
                            sparse({.drop = 0, .staleness = staleness}, {.drain_every = 4}),
                            nullptr, [&](SlowLinkTraining& training, int) {
                              EXPECT_EQ(train_on(training, kEpochs) == expected, true)
                                  << ranks << " ranks, staleness " << staleness;
                            });
      }
    }
  }
}

TEST(SlowLinkTraining, StopsWhereItIsDrainedAndResumedIsUnbroken) {
  TrainerConfig config = config_of({.kind = OptimizerConfig::Kind::kAdam}, 2);
  config.batch = 10;
  const SlowLinkWay options = sparse({.drop = 0.9, .staleness = 2}, {.drain_every = 3});
  MemoryFs fs;
  const Checkpoint saved = stopped_after(1, 2, config, options, fs);
  EXPECT_EQ(saved.step, 3);
  const std::string expected = unbroken(2, config, options);
  for (const std::string& b : resumed(saved, 2, config, options, fs)) {
    EXPECT_EQ(b == expected, true);
  }
}

// Of fewer steps than are drained together.
TEST(SlowLinkTraining, StopsBehindAShortEpoch) {
  const TrainerConfig config = config_of({}, 2);
  for (const int staleness : {0, 1}) {
    const SlowLinkWay way = sparse({.staleness = staleness}, {.drain_every = 1000});
    on_ranks_that_train(2, config, way, nullptr, [&](SlowLinkTraining& training, int rank) {
      TensorDataset data = stripes(kRows, 3);
      EpochResult result;
      bool whole = true;
      int64_t epochs = 0;
      for (; whole && epochs < 10; ++epochs) {
        whole = training.train_epoch(data, result, [&](int64_t, int64_t) { return rank != 1; });
      }
      EXPECT_FALSE(whole);
      EXPECT_LE(epochs, 2);
      EXPECT_EQ(training.epoch(), staleness == 0 ? 0 : 1);
    });
  }
}

TEST(SlowLinkTraining, MayEndInTheMiddleOfWhatIsUnderWay) {
  TrainerConfig config = config_of({}, 2);
  auto transports = memory_transports(2);
  std::vector<std::jthread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      const Model m = small_net(true, 0.3);
      SlowLinkTraining training(m, weights_of(m), cpu(), config,
                                talk(std::move(transports[static_cast<size_t>(r)])), {},
                                sparse({.staleness = 2}).make);
      TensorDataset data = stripes(kRows, 3);
      EpochResult result;
      EXPECT_THROW(training.train_epoch(data, result,
                                        [&](int64_t done, int64_t) {
                                          if (done == 2) throw std::runtime_error("enough");
                                          return true;
                                        }),
                   std::runtime_error);
    });
  }
}

TEST(SlowLinkTraining, FirstEpochsMaySendMore) {
  TrainerConfig config = config_of({.kind = OptimizerConfig::Kind::kSgd, .momentum = 0}, 2);
  config.epochs = 6;
  on_ranks_that_train(2, config, sparse(deep_gradient_compression(0.9)), nullptr,
                      [&](SlowLinkTraining& training, int) {
                        std::vector<int64_t> sent;
                        for (int64_t epochs = 1; epochs <= 6; ++epochs) {
                          const int64_t before = training.sync().sent_bytes();
                          (void)train_on(training, epochs);
                          sent.push_back(training.sync().sent_bytes() - before);
                        }
                        for (size_t e = 1; e < 3; ++e) EXPECT_LT(sent[e], sent[e - 1]) << e;
                        EXPECT_LE(sent[3], sent[2]) << "one element of each is the least";
                        EXPECT_NEAR(static_cast<double>(sent[5]), static_cast<double>(sent[4]),
                                    0.1 * static_cast<double>(sent[4]));
                      });
}

// What is drawn, and whose turn a piece is, has to be the same on all ranks.
TEST(SlowLinkTraining, ARankThatHasLostItsFileGoesOnWithoutIt) {
  const TrainerConfig config = config_of({}, 2);
  for (const SparseSyncOptions& sync :
       {SparseSyncOptions{.drop = 0.9}, SparseSyncOptions{.compressor = "randomk", .drop = 0.9},
        SparseSyncOptions{.compressor = "topk", .drop = 0.9, .pieces = true}}) {
    SCOPED_TRACE(sync.compressor);
    const SlowLinkWay options = sparse(sync);
    MemoryFs fs;
    const Checkpoint saved = stopped_after(1, 2, config, options, fs);
    fs.remove("run1/rank1-epoch0-step2.safetensors").or_throw();
    ::testing::internal::CaptureStderr();
    const std::vector<std::string> bytes = resumed(saved, 2, config, options, fs);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                ::testing::HasSubstr("rank 1 has no file of what it had not sent"));
    EXPECT_EQ(bytes[0] == bytes[1], true);
    EXPECT_EQ(bytes[0] == unbroken(2, config, options), false);
  }
}

TEST(SlowLinkTraining, KeepsFilesOfTheLastTwoPositions) {
  TrainerConfig config = config_of({}, 2);
  config.epochs = 4;
  MemoryFs fs;
  on_ranks_that_train(2, config, sparse({}), &fs, [&](SlowLinkTraining& training, int rank) {
    for (const int64_t epochs : {1, 2, 3}) {
      (void)train_on(training, epochs);
      (void)training.checkpoint();  // of the same position
    }
    std::vector<std::string> names = fs.list("run" + std::to_string(rank)).or_throw();
    std::ranges::sort(names);
    const std::string prefix = "rank" + std::to_string(rank) + "-epoch";
    EXPECT_THAT(names, ::testing::ElementsAre(prefix + "2-step0.safetensors",
                                              prefix + "3-step0.safetensors"));
  });
}

TEST(SlowLinkTraining, OfWholeGradientsAndUnequalSharesIsOneProcess) {
  const TrainerConfig config = config_of({}, 3);
  const Bytes expected = alone(config);
  on_ranks_that_train(2, config, sparse({.drop = 0}, {.shares = {2, 1}}), nullptr,
                      [&](SlowLinkTraining& training, int rank) {
                        EXPECT_EQ(training.own_shards().end, rank == 0 ? 2 : 3);
                        EXPECT_EQ(train_on(training, kEpochs) == expected.back(), true);
                      });
}

TEST(SlowLinkTraining, AfterAResetItIsAsOneThatBegins) {
  const TrainerConfig config = config_of({}, 2);
  on_ranks_that_train(2, config, sparse({.drop = 0.9}), nullptr,
                      [&](SlowLinkTraining& training, int) {
                        (void)train_on(training, 1);
                        training.reset_optimizer();
                        for (const auto& [name, t] : training.sync().state()) {
                          if (!name.ends_with(".residual")) continue;
                          for (const float x : t.as<float>()) ASSERT_EQ(x, 0) << name;
                        }
                      });
}

TEST(SlowLinkTraining, RanksThatDifferAreNamed) {
  TrainerConfig config = config_of({}, 3);
  config.batch = 12;
  for (const int64_t verify_every : {0, 2}) {
    on_ranks_that_train(
        3, config, sparse({.drop = 0.9}, {.verify_every = verify_every}), nullptr,
        [&](SlowLinkTraining& training, int rank) {
          (void)train_on(training, 1);
          if (rank == 2) {
            Checkpoint c = training.checkpoint();
            c.parameters.at("fc.b").mutable_as<float>()[0] += 1;
            training.trainer().restore(c);
          }
          TensorDataset data = stripes(kRows, 3);
          EpochResult result;
          try {
            training.train_epoch(data, result, {});
            ADD_FAILURE() << "rank 2 has another bias";
          } catch (const Error& e) {
            const std::string step = verify_every > 0 ? "step 2" : "step 6";
            EXPECT_THAT(e.what(), ::testing::HasSubstr("epoch 2, " + step + ": rank 2 has other"));
          }
        });
  }
}

}  // namespace
}  // namespace ndtrain
