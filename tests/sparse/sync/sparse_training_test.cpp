// Sparse training by ranks, begun, stopped and resumed.
#include "framework/sparse/sync/sparse_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <stdexcept>

#include "framework/parallel/between_ranks.h"
#include "framework/testing/memory_fs.h"
#include "tests/parallel/training_by_ranks.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h

using Use = std::function<void(SparseTraining& training, int rank)>;

// Each rank keeps its files in a directory of its own.
void on_ranks_that_train(int ranks, const TrainerConfig& config,
                         const SparseTraining::Options& options, Fs* fs, const Use& use) {
  auto transports = memory_transports(ranks);
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      try {
        SparseTraining::Options own = options;
        if (fs) own.files.emplace(*fs, "run" + std::to_string(r), r);
        const Model m = small_net(true, 0.3);
        SparseTraining training(m, weights_of(m), cpu(), config,
                                talk(std::move(transports[static_cast<size_t>(r)])), own);
        use(training, r);
        barrier(training.communicator());
      } catch (const Error& e) {
        ADD_FAILURE() << "rank " << r << ": " << e.what();
      }
    });
  }
}

// Trains the rest of the epochs; what there is after the last one.
std::string train_on(Training& training, int64_t epochs) {
  TensorDataset data = stripes(kRows, 3);
  std::string bytes;
  while (training.epoch() < epochs) {
    EpochResult result;
    EXPECT_TRUE(training.train_epoch(data, result, {}));
    bytes = bytes_of(training.checkpoint(), result);
  }
  return bytes;
}

// The checkpoint of rank 0, which has asked to stop after so many steps of the first epoch.
Checkpoint stopped_after(int64_t steps, int ranks, const TrainerConfig& config,
                         const SparseTraining::Options& options, Fs& fs) {
  Checkpoint saved;
  on_ranks_that_train(ranks, config, options, &fs, [&](SparseTraining& training, int rank) {
    TensorDataset data = stripes(kRows, 3);
    EpochResult result;
    EXPECT_FALSE(training.train_epoch(
        data, result, [&](int64_t done, int64_t) { return rank != 0 || done < steps; }));
    const Checkpoint c = training.checkpoint();
    if (rank == 0) saved = c;
  });
  return saved;
}

std::vector<std::string> resumed(const Checkpoint& from, int ranks, const TrainerConfig& config,
                                 const SparseTraining::Options& options, Fs& fs) {
  std::vector<std::string> bytes(static_cast<size_t>(ranks));
  on_ranks_that_train(ranks, config, options, &fs, [&](SparseTraining& training, int rank) {
    training.restore(from);
    bytes[static_cast<size_t>(rank)] = train_on(training, kEpochs);
  });
  return bytes;
}

std::string unbroken(int ranks, const TrainerConfig& config,
                     const SparseTraining::Options& options) {
  std::string bytes;
  on_ranks_that_train(ranks, config, options, nullptr, [&](SparseTraining& training, int rank) {
    const std::string own = train_on(training, kEpochs);
    if (rank == 0) bytes = own;
  });
  return bytes;
}

struct Way {
  const char* compressor;
  OptimizerConfig optimizer;
  bool lazy = false;
};

TEST(SparseTraining, ResumedIsUnbroken) {
  constexpr auto kSgd = OptimizerConfig::Kind::kSgd;
  const std::vector<Way> ways = {
      {.compressor = "threshold-v16", .optimizer = {.kind = OptimizerConfig::Kind::kAdam}},
      {.compressor = "threshold-v", .optimizer = {.kind = kSgd}, .lazy = true},
      {.compressor = "randomk", .optimizer = {.kind = kSgd, .dampening = 0.2}},
      {.compressor = "efsignum", .optimizer = {.kind = kSgd}}};
  for (const auto& [compressor, optimizer, lazy] : ways) {
    const TrainerConfig config = config_of(optimizer, 4);
    const SparseTraining::Options options{.sync = {.compressor = compressor,
                                                   .compressing = {.rotate = !lazy},
                                                   .drop = 0.9,
                                                   .optimizer = {.lazy = lazy}}};
    MemoryFs fs;
    const Checkpoint saved = stopped_after(1, 2, config, options, fs);
    EXPECT_EQ(saved.step, 2) << "all ranks do one more step";
    const std::string expected = unbroken(2, config, options);
    for (const std::string& b : resumed(saved, 2, config, options, fs)) {
      EXPECT_EQ(b == expected, true) << compressor;
    }
  }
}

// As when rank 0 is killed before it has kept the newer one.
TEST(SparseTraining, ResumedFromThePositionBeforeTheLastIsUnbroken) {
  const TrainerConfig config = config_of({}, 2);
  const SparseTraining::Options options{.sync = {.drop = 0.9}};
  MemoryFs fs;
  Checkpoint first;
  on_ranks_that_train(2, config, options, &fs, [&](SparseTraining& training, int rank) {
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

TEST(SparseTraining, ResumedIsUnbrokenWithMomentumOfGradients) {
  const TrainerConfig config = config_of({.kind = OptimizerConfig::Kind::kSgd, .momentum = 0}, 2);
  const SparseTraining::Options options{.sync = deep_gradient_compression(0.9)};
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
  TensorDataset data = stripes(kRows, 3);
  std::string bytes;
  for (int64_t e = 0; e < config.epochs; ++e) {
    EpochResult result;
    EXPECT_TRUE(trainer.train_epoch(data, result, [&](int64_t done, int64_t) {
      if (done % drain_every == 0) sync->flush();
      return true;
    }));
    bytes = bytes_of(trainer.checkpoint(), result);
  }
  return bytes;
}

TEST(SparseTraining, OfWholeGradientsAndSomeStepsLateIsADelayedProgram) {
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
                            {.sync = {.drop = 0, .staleness = staleness}, .drain_every = 4},
                            nullptr, [&](SparseTraining& training, int) {
                              EXPECT_EQ(train_on(training, kEpochs) == expected, true)
                                  << ranks << " ranks, staleness " << staleness;
                            });
      }
    }
  }
}

TEST(SparseTraining, StopsWhereItIsDrainedAndResumedIsUnbroken) {
  TrainerConfig config = config_of({.kind = OptimizerConfig::Kind::kAdam}, 2);
  config.batch = 10;
  const SparseTraining::Options options{.sync = {.drop = 0.9, .staleness = 2}, .drain_every = 3};
  MemoryFs fs;
  const Checkpoint saved = stopped_after(1, 2, config, options, fs);
  EXPECT_EQ(saved.step, 3);
  const std::string expected = unbroken(2, config, options);
  for (const std::string& b : resumed(saved, 2, config, options, fs)) {
    EXPECT_EQ(b == expected, true);
  }
}

TEST(SparseTraining, MayEndInTheMiddleOfWhatIsUnderWay) {
  TrainerConfig config = config_of({}, 2);
  auto transports = memory_transports(2);
  std::vector<std::jthread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      const Model m = small_net(true, 0.3);
      SparseTraining training(m, weights_of(m), cpu(), config,
                              talk(std::move(transports[static_cast<size_t>(r)])),
                              {.sync = {.staleness = 2}});
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

TEST(SparseTraining, FirstEpochsMaySendMore) {
  TrainerConfig config = config_of({.kind = OptimizerConfig::Kind::kSgd, .momentum = 0}, 2);
  config.epochs = 6;
  on_ranks_that_train(2, config, {.sync = deep_gradient_compression(0.9)}, nullptr,
                      [&](SparseTraining& training, int) {
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

TEST(SparseTraining, ARankThatHasLostItsFileGoesOnWithoutIt) {
  const TrainerConfig config = config_of({}, 2);
  const SparseTraining::Options options{.sync = {.drop = 0.9}};
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

TEST(SparseTraining, KeepsFilesOfTheLastTwoPositions) {
  TrainerConfig config = config_of({}, 2);
  config.epochs = 4;
  MemoryFs fs;
  on_ranks_that_train(2, config, {}, &fs, [&](SparseTraining& training, int rank) {
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

TEST(SparseTraining, OfWholeGradientsAndUnequalSharesIsOneProcess) {
  const TrainerConfig config = config_of({}, 3);
  const Bytes expected = alone(config);
  on_ranks_that_train(2, config, {.sync = {.drop = 0}, .shares = {2, 1}}, nullptr,
                      [&](SparseTraining& training, int rank) {
                        EXPECT_EQ(training.own_shards().end, rank == 0 ? 2 : 3);
                        EXPECT_EQ(train_on(training, kEpochs) == expected.back(), true);
                      });
}

TEST(SparseTraining, AfterAResetItIsAsOneThatBegins) {
  const TrainerConfig config = config_of({}, 2);
  on_ranks_that_train(2, config, {.sync = {.drop = 0.9}}, nullptr,
                      [&](SparseTraining& training, int) {
                        (void)train_on(training, 1);
                        training.reset_optimizer();
                        for (const auto& [name, t] : training.sync().state()) {
                          if (!name.ends_with(".residual")) continue;
                          for (const float x : t.as<float>()) ASSERT_EQ(x, 0) << name;
                        }
                      });
}

}  // namespace
}  // namespace ndtrain
