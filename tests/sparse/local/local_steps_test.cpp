#include "framework/sparse/local/local_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/sparse/local/serial_local_steps.h"
#include "tests/sparse/one_tensor.h"
#include "tests/sparse/slow_link_ranks.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h

SlowLinkWay locally(const LocalStepsOptions& options, SlowLinkTraining::Options training = {}) {
  return slow_link_way<LocalSteps>(options, std::move(training));
}

TEST(LocalSteps, AreASerialProgram) {
  constexpr auto kSgd = OptimizerConfig::Kind::kSgd;
  const std::vector<Ways> all = {
      {.shares = {1, 1}, .options = averaging(1)},
      {.shares = {1, 1}, .options = averaging(3)},
      {.shares = {1, 1}, .options = {.inner_steps = 2}},
      {.shares = {1, 1, 1}, .options = {.inner_steps = 3}},
      {.shares = {1, 1, 1, 1}, .drain_every = 4, .options = {.inner_steps = 2, .outer_lr = 0.5}},
      {.shares = {2, 1}, .options = {.inner_steps = 2}},
      {.shares = {1, 1}, .options = {.inner_steps = 3, .fragments = 3}},
      {.shares = {1, 1}, .options = {.inner_steps = 3, .fragments = 2, .overlap = 1}},
      {.shares = {1, 1, 1},
       .drain_every = 5,
       .options = {.inner_steps = 4, .fragments = 4, .overlap = 3, .mixing = 0.25}},
      {.shares = {1, 1}, .options = {.inner_steps = 2, .overlap = 1, .mixing = 0}}};
  std::vector<std::string> others;
  for (const Ways& ways : all) {
    for (const OptimizerConfig& optimizer :
         {OptimizerConfig{.kind = kSgd}, OptimizerConfig{.kind = OptimizerConfig::Kind::kAdamW}}) {
      double shards = 0;
      for (const double share : ways.shares) shards += share;
      TrainerConfig config = config_of(optimizer, static_cast<int>(shards));
      config.batch = 12;
      const Ended expected = SerialProgram(config, ways).run();
      for (const std::string& other : others) ASSERT_EQ(other == expected.checkpoint, false);
      others.push_back(expected.checkpoint);
      const std::string what = std::to_string(&ways - all.data());
      on_ranks_that_train(
          static_cast<int>(ways.shares.size()), config,
          locally(ways.options, {.drain_every = ways.drain_every, .shares = ways.shares}), nullptr,
          [&](SlowLinkTraining& training, int rank) {
            TensorDataset data = stripes(kRows, 3);
            EpochResult result;
            for (int64_t e = 0; e < kEpochs; ++e) {
              EXPECT_TRUE(training.train_epoch(data, result, {}));
            }
            const Checkpoint c = training.checkpoint();
            if (rank == 0) {
              EXPECT_EQ(bytes_of(c) == expected.checkpoint, true) << what;
            }
            EXPECT_EQ(values_of(c.parameters) == expected.parameters, true) << what;
            EXPECT_NEAR(result.loss, expected.result.loss, 1e-6) << what;
            EXPECT_NEAR(result.top1, expected.result.top1, 1e-12) << what;
            EXPECT_NEAR(result.top5, expected.result.top5, 1e-12) << what;
          });
    }
  }
}

// Means of what ranks of equal shares have, step by step, are means of their gradients.
TEST(LocalSteps, OfOneStepAreThoseOfOneProcess) {
  TrainerConfig config = config_of({.kind = OptimizerConfig::Kind::kSgd}, 2);
  config.batch = 14;  // all steps have as many rows of each
  const Model m = small_net(true, 0.3);
  Trainer one(m, weights_of(m), cpu(), config);
  (void)train(one);
  const Checkpoint expected = one.checkpoint();
  on_ranks_that_train(2, config, locally(averaging(1)), nullptr,
                      [&](SlowLinkTraining& training, int) {
                        (void)train_on(training, kEpochs);
                        const Checkpoint c = training.checkpoint();
                        const auto expect_near = [](const Values& a, const Values& b) {
                          for (const auto& [name, values] : a) {
                            for (size_t i = 0; i < values.size(); ++i) {
                              EXPECT_NEAR(values[i], b.at(name)[i], 1e-5) << name;
                            }
                          }
                        };
                        expect_near(values_of(c.parameters), values_of(expected.parameters));
                        expect_near(values_of(c.states), values_of(expected.states));
                      });
}

TEST(LocalSteps, ResumedAreUnbroken) {
  const std::vector<LocalStepsOptions> all = {
      {.inner_steps = 2},
      {.inner_steps = 3, .fragments = 2, .overlap = 1},
      averaging(2),
      {.inner_steps = 2, .wire = ValueCoding::kInt8},
      {.inner_steps = 2, .compressor = "threshold-v16", .drop = 0.9}};
  for (const LocalStepsOptions& options : all) {
    TrainerConfig config = config_of({.kind = OptimizerConfig::Kind::kAdam}, 2);
    config.batch = 12;
    const SlowLinkWay way = locally(options, {.drain_every = 2});
    MemoryFs fs;
    const Checkpoint saved = stopped_after(1, 2, config, way, fs);
    EXPECT_EQ(saved.step, 2) << "where all agree";
    std::vector<std::string> expected(2);
    on_ranks_that_train(2, config, way, nullptr, [&](SlowLinkTraining& training, int rank) {
      expected[static_cast<size_t>(rank)] = train_on(training, kEpochs);
    });
    EXPECT_EQ(expected[0] == expected[1], false) << "moments are a rank's own";
    EXPECT_EQ(resumed(saved, 2, config, way, fs) == expected, true);
  }
}

TEST(LocalSteps, OfARankThatHasLostItsFileAgreeAllTheSame) {
  TrainerConfig config = config_of({.kind = OptimizerConfig::Kind::kSgd}, 2);
  config.batch = 12;
  const SlowLinkWay way = locally({.inner_steps = 2}, {.drain_every = 2});
  MemoryFs fs;
  const Checkpoint saved = stopped_after(1, 2, config, way, fs);
  fs.remove("run1/rank1-epoch0-step2.safetensors").or_throw();
  std::vector<Values> parameters(2);
  ::testing::internal::CaptureStderr();
  on_ranks_that_train(2, config, way, &fs, [&](SlowLinkTraining& training, int rank) {
    training.restore(saved);
    (void)train_on(training, kEpochs);
    parameters[static_cast<size_t>(rank)] = values_of(training.checkpoint().parameters);
  });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("rank 1 has no file"));
  EXPECT_EQ(parameters[0] == parameters[1], true);
}

TEST(LocalSteps, OfLessThanOuterGradientsAgreeAllTheSame) {
  std::vector<LocalStepsOptions> all = {{.inner_steps = 2},
                                        {.inner_steps = 2, .wire = ValueCoding::kBF16},
                                        {.inner_steps = 2, .wire = ValueCoding::kF16},
                                        {.inner_steps = 2, .wire = ValueCoding::kInt8},
                                        {.inner_steps = 2, .wire = ValueCoding::kInt4}};
  for (const std::string_view name : compressor_names()) {
    all.push_back({.inner_steps = 3,
                   .fragments = 2,
                   .overlap = 1,
                   .compressor = std::string(name),
                   .drop = 0.5});
  }
  std::vector<Values> before;
  for (const LocalStepsOptions& options : all) {
    std::vector<Values> parameters(3);
    TrainerConfig config = config_of({}, 3);
    config.batch = 12;
    on_ranks_that_train(
        3, config, locally(options), nullptr, [&](SlowLinkTraining& training, int rank) {
          (void)train_on(training, kEpochs);
          parameters[static_cast<size_t>(rank)] = values_of(training.checkpoint().parameters);
        });
    EXPECT_EQ(parameters[0] == parameters[1] && parameters[1] == parameters[2], true);
    for (const Values& other : before) EXPECT_EQ(other == parameters[0], false);
    before.push_back(parameters[0]);
  }
}

// All elements, by up to three ranks in whatever order of ranks: the bytes of whole ones.
TEST(LocalSteps, OfSelectionsOfAllAreThoseOfWholeOuterGradients) {
  for (const int ranks : {2, 3}) {
    TrainerConfig config = config_of({}, ranks);
    config.batch = 12;
    const LocalStepsOptions whole{.inner_steps = 3, .fragments = 2, .overlap = 1};
    LocalStepsOptions selected = whole;
    selected.compressor = "topk";
    selected.drop = 0;
    EXPECT_EQ(unbroken(ranks, config, locally(selected)) == unbroken(ranks, config, locally(whole)),
              true);
  }
}

// What is sent of a model of P parameters, in two epochs of six steps.
TEST(LocalSteps, SendNothingBetweenAgreements) {
  TrainerConfig config = config_of({}, 2);
  config.batch = 12;
  std::vector<int64_t> sent;
  for (const int64_t inner : {1, 2, 6}) {
    on_ranks_that_train(2, config, locally({.inner_steps = inner}), nullptr,
                        [&](SlowLinkTraining& training, int rank) {
                          (void)train_on(training, kEpochs);
                          if (rank == 0) sent.push_back(training.sync().sent_bytes());
                        });
  }
  EXPECT_EQ(sent[0], 2 * sent[1]);
  EXPECT_EQ(sent[0], 6 * sent[2]);
}

TEST(LocalSteps, LeaveOutAGradientThatIsNotFiniteWhereItIs) {
  on_ranks(2, [](Communicator& communicator, int rank) {
    using One = OneTensorOf<LocalSteps, LocalStepsOptions>;
    One one(communicator, rank, 2, {.kind = OptimizerConfig::Kind::kSgd, .momentum = 0},
            averaging(2));
    std::vector<float> gradient(One::kElements, 1);
    one.step(gradient);
    if (rank == 1) gradient[7] = std::numeric_limits<float>::quiet_NaN();
    one.step(gradient);
    EXPECT_EQ(one.sync().left_out(), rank);
    EXPECT_EQ(one.steps(), 2 - rank);
    one.flush();
    // Twice the gradient of its shard, which is half of all, at rate 1: -4 and -2.
    EXPECT_EQ(one.values(), std::vector<float>(One::kElements, -3));
  });
}

TEST(LocalSteps, ThatCannotBeAreErrors) {
  const std::vector<std::pair<LocalStepsOptions, const char*>> all = {
      {{.inner_steps = 0}, "every 0 steps"},
      {{.outer_lr = 0}, "outer learning rate is 0"},
      {{.outer_momentum = 1}, "outer momentum is 1"},
      {{.inner_steps = 4, .overlap = 4}, "overlap of 4 steps"},
      {{.mixing = 1}, "mixing is 1"},
      {{.fragments = 1000}, "1000 fragments"}};
  for (const auto& [options, what] : all) {
    auto transports = memory_transports(1);
    const Model m = small_net(true, 0.3);
    try {
      const SlowLinkTraining training(m, weights_of(m), cpu(), config_of({}, 1),
                                      talk(std::move(transports[0])), {}, locally(options).make);
      ADD_FAILURE() << what;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr(what));
    }
  }
}

TEST(LocalSteps, HaveNoScaleOfTheLossEach) {
  auto transports = memory_transports(1);
  const Model m = small_net(true, 0.3);
  TrainerConfig config = config_of({}, 1);
  config.compute = DType::kF16;
  EXPECT_THAT(error_of([&] {
                SlowLinkTraining(m, weights_of(m), cpu(), config, talk(std::move(transports[0])),
                                 {}, locally({}).make);
              }),
              ::testing::HasSubstr("take bf16"));
}

}  // namespace
}  // namespace ndtrain
