#include "framework/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "framework/core/rng.h"
#include "framework/runtime/interpreter.h"
#include "framework/testing/memory_fs.h"
#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"
#include "tests/train/small_net.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using testing::bytes_of;
using testing::cpu;
using testing::error_of;
using ::testing::HasSubstr;
using testing::kSide;
using testing::small_net;
using testing::stripes;
using testing::weights_of;

Trainer trainer_for(const Model& m, const TrainerConfig& config) {
  return Trainer(m, weights_of(m), cpu(), config);
}

TEST(Trainer, ANetWithBatchNormalizationAndDropoutLearns) {
  TensorDataset train = stripes(240, 1), val = stripes(90, 2);
  for (auto kind : {OptimizerConfig::Kind::kSgd, OptimizerConfig::Kind::kAdam}) {
    const TrainerConfig config{.epochs = 8,
                               .batch = 16,
                               .optimizer = {.kind = kind},
                               .schedule = {.kind = Schedule::Kind::kCosine,
                                            .lr = kind == OptimizerConfig::Kind::kSgd ? 0.1 : 0.02},
                               .warmup_epochs = 1,
                               .label_smoothing = 0.05};
    Trainer t = trainer_for(small_net(true, 0.1), config);
    EXPECT_LT(t.evaluate(val).top1, 0.8);
    EpochResult first, last;
    ASSERT_TRUE(t.train_epoch(train, first));
    while (t.epoch() < config.epochs) ASSERT_TRUE(t.train_epoch(train, last));
    EXPECT_LT(last.loss, first.loss);
    EXPECT_EQ(last.epoch, 7);
    EXPECT_GT(t.evaluate(val).top1, 0.9);
  }
}

TEST(Trainer, TheAverageOfTheWeightsIsEvaluatedAndTheModel) {
  TensorDataset train = stripes(120, 1), val = stripes(90, 2);
  const Model m = small_net(true, 0);
  const TrainerConfig plain{.batch = 16, .schedule = {.lr = 0.05}};
  TrainerConfig config = plain;
  config.optimizer.ema = 0.9;
  Trainer t = trainer_for(m, config), raw = trainer_for(m, plain),
          of_average = trainer_for(m, plain);
  EXPECT_EQ(t.evaluate(val).loss, raw.evaluate(val).loss) << "before the first step";
  EpochResult result;
  ASSERT_TRUE(t.train_epoch(train, result));
  ASSERT_TRUE(raw.train_epoch(train, result));
  const Checkpoint c = t.checkpoint();
  Checkpoint average = raw.checkpoint();
  for (auto& [name, value] : average.parameters) {
    EXPECT_TRUE(c.parameters.at(name).same_bytes(value)) << "the weights are what they were";
    value = c.optimizer.at(average_name(name));
    EXPECT_TRUE(t.model().initialisers.at(name).same_bytes(value)) << name;
    EXPECT_FALSE(c.parameters.at(name).same_bytes(value)) << name;
  }
  of_average.restore(average);
  EXPECT_EQ(t.evaluate(val).loss, of_average.evaluate(val).loss);
  EXPECT_NE(t.evaluate(val).loss, raw.evaluate(val).loss);
  Trainer resumed = trainer_for(m, config);
  resumed.restore(c);
  EXPECT_EQ(t.evaluate(val).loss, resumed.evaluate(val).loss);
  ASSERT_TRUE(t.train_epoch(train, result));
  ASSERT_TRUE(resumed.train_epoch(train, result));
  EXPECT_EQ(bytes_of(t.checkpoint()), bytes_of(resumed.checkpoint()));
}

TEST(Trainer, LearnsInSixteenBitsOnWeightsOfThirtyTwo) {
  TensorDataset train = stripes(240, 1), val = stripes(90, 2);
  for (const DType compute : {DType::kBF16, DType::kF16}) {
    Trainer t =
        trainer_for(small_net(true, 0),
                    {.epochs = 8, .batch = 16, .schedule = {.lr = 0.02}, .compute = compute});
    EpochResult first, last;
    ASSERT_TRUE(t.train_epoch(train, first));
    while (t.epoch() < 8) ASSERT_TRUE(t.train_epoch(train, last));
    EXPECT_LT(last.loss, first.loss) << name_of(compute);
    EXPECT_GT(t.evaluate(val).top1, 0.9) << name_of(compute);
    EXPECT_EQ(t.model().initialisers.at("conv.w").type().dtype, DType::kF32);
  }
}

// A scale too large for f16 makes the first gradients infinite: they are not applied.
TEST(Trainer, AStepWhoseGradientsOverflowIsLeftOutAndTheScaleHalved) {
  TensorDataset data = stripes(8, 1);
  const TrainerConfig config{.batch = 8, .compute = DType::kF16};
  Trainer t = trainer_for(small_net(false, 0), config);
  Checkpoint before = t.checkpoint();
  before.loss_scale.value = LossScale::kHighest;
  t.restore(before);
  EpochResult r;
  ASSERT_TRUE(t.train_epoch(data, r));
  const Checkpoint after = t.checkpoint();
  EXPECT_EQ(after.loss_scale.value, LossScale::kHighest / 2);
  EXPECT_EQ(after.optimizer_steps, 0);
  EXPECT_TRUE(after.parameters.at("conv.w").same_bytes(before.parameters.at("conv.w")));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(t.train_epoch(data, r));
  EXPECT_GT(t.checkpoint().optimizer_steps, 0);
}

TEST(Trainer, ATrainingThatDivergesStopsAndNothingOfItLeaves) {
  TensorDataset data = stripes(48, 1);
  for (const DType compute : {DType::kF32, DType::kBF16, DType::kF16}) {
    Trainer t =
        trainer_for(small_net(false, 0),
                    {.epochs = 50, .batch = 8, .schedule = {.lr = 1e30}, .compute = compute});
    EpochResult r;
    const std::string why = error_of([&] {
      for (int i = 0; i < 50; ++i) ASSERT_TRUE(t.train_epoch(data, r));
    });
    EXPECT_THAT(why,
                AllOf(HasSubstr("epoch "), HasSubstr("diverged"), HasSubstr("lower learning rate")))
        << name_of(compute);
  }
}

TEST(Trainer, FeaturesThatAreNotFiniteAreNotTrainedOn) {
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    Tensor x({DType::kF32, {8, 1, kSide, kSide}});
    x.mutable_as<float>()[100] = bad;
    TensorDataset data({x}, {0, 1, 2, 0, 1, 2, 0, 1});
    Trainer t = trainer_for(small_net(false, 0), {.batch = 8});
    const Checkpoint before = t.checkpoint();
    EpochResult r;
    EXPECT_THAT(error_of([&] { (void)t.train_epoch(data, r); }),
                AllOf(HasSubstr("epoch 1, step 1"), HasSubstr("trained on has NaN or Inf")));
    EXPECT_EQ(bytes_of(t.checkpoint()), bytes_of(before)) << "no weight has changed";
  }
}

TEST(Trainer, AWeightThatIsNotFiniteNeitherLeavesNorComesBack) {
  Trainer t = trainer_for(small_net(true, 0), {.batch = 8});
  for (const std::string name : {"fc.b", "bn.mean"}) {
    Model m = small_net(true, 0);
    Tensor spoiled(m.initialisers.at(name).type());
    spoiled.mutable_as<float>()[1] = std::nanf("");
    m.initialisers[name] = spoiled;
    Trainer given = trainer_for(m, {.batch = 8});
    EXPECT_THAT(error_of([&] { (void)given.model(); }), HasSubstr("'" + name + "' has NaN or Inf"));
    EXPECT_THAT(error_of([&] { (void)given.checkpoint(); }), HasSubstr("'" + name + "'"));
  }
  Checkpoint c = t.checkpoint();
  Tensor spoiled(c.parameters.at("fc.w").type());
  spoiled.mutable_as<float>()[0] = HUGE_VALF;
  c.parameters["fc.w"] = spoiled;
  EXPECT_THAT(error_of([&] { t.restore(c); }), HasSubstr("'fc.w' has NaN or Inf"));
}

TEST(LossScale, GrowsAfterAsManyGoodStepsAsItTakes) {
  LossScale s;
  for (int64_t i = 1; i < LossScale::kPatience; ++i) s.update(true);
  EXPECT_EQ(s.value, 65536);
  s.update(true);
  EXPECT_EQ(s.value, 131072);
  for (int i = 0; i < 40; ++i) s.update(false);
  EXPECT_EQ(s.value, LossScale::kLowest);
}

class TrainerBySchedule : public ::testing::TestWithParam<Schedule::Kind> {};
INSTANTIATE_TEST_SUITE_P(, TrainerBySchedule,
                         ::testing::Values(Schedule::Kind::kCosine, Schedule::Kind::kExponential));

TEST_P(TrainerBySchedule, StoppedAtAnyStepAndResumedGivesTheSameBytes) {
  constexpr int64_t kSteps = 4, kEpochs = 2;
  TensorDataset data = stripes(30, 1);  // 8 + 8 + 8 + 6 rows
  const TrainerConfig config{.epochs = kEpochs,
                             .batch = 8,
                             .schedule = {.kind = GetParam(), .lr = 0.01},
                             .warmup_epochs = 0.5,
                             .seed = 5};
  const Model m = small_net(true, 0.3);
  std::vector<EpochResult> results(kEpochs);
  Trainer whole = trainer_for(m, config);
  for (EpochResult& r : results) ASSERT_TRUE(whole.train_epoch(data, r));
  const std::string want = bytes_of(whole.checkpoint());

  for (int64_t stop = 0; stop < kSteps * kEpochs; ++stop) {
    Trainer first = trainer_for(m, config);
    EpochResult r;
    int64_t steps = 0;
    const auto until = [&](int64_t, int64_t) { return ++steps < stop; };
    while (steps < stop) first.train_epoch(data, r, until);
    MemoryFs fs;
    save_checkpoint(fs, "/last", first.checkpoint()).or_throw();

    Trainer second = trainer_for(m, config);
    second.restore(load_checkpoint(fs, "/last").or_throw());
    while (second.epoch() < kEpochs) {
      const auto epoch = static_cast<size_t>(second.epoch());
      ASSERT_TRUE(second.train_epoch(data, r));
      EXPECT_EQ(r.loss, results[epoch].loss) << "stopped after " << stop;
      EXPECT_EQ(r.top1, results[epoch].top1);
      EXPECT_EQ(r.lr, results[epoch].lr);
    }
    EXPECT_TRUE(bytes_of(second.checkpoint()) == want) << "stopped after " << stop;
  }
}

TEST(Trainer, ExponentialRatesFallByThreeHundredthsAnEpoch) {
  TensorDataset data = stripes(32, 1);
  Trainer t = trainer_for(
      small_net(false, 0),
      {.epochs = 3, .batch = 8, .schedule = {.kind = Schedule::Kind::kExponential, .lr = 0.01}});
  for (int epoch = 0; epoch < 3; ++epoch) {
    EpochResult r;
    ASSERT_TRUE(t.train_epoch(data, r));
    EXPECT_NEAR(r.lr, 0.01 * std::pow(0.97, epoch + 0.75), 1e-15) << "its fourth step of four";
  }
}

TEST(Trainer, GoneBackToItsBeginningItGivesTheSameBytes) {
  const Model m = small_net(true, 0.3);
  TensorDataset data = stripes(70, 1);
  Trainer t = trainer_for(m, {.epochs = 2, .batch = 16});
  EpochResult result;
  const std::string new_one = bytes_of(t.checkpoint());
  ASSERT_TRUE(t.train_epoch(data, result));
  const std::string expected = bytes_of(t.checkpoint());
  EXPECT_FALSE(expected == new_one);
  t.restore(t.beginning(m));
  EXPECT_TRUE(bytes_of(t.checkpoint()) == new_one);
  ASSERT_TRUE(t.train_epoch(data, result));
  EXPECT_TRUE(bytes_of(t.checkpoint()) == expected);
}

TEST(Trainer, PreparedAheadItGivesTheSameBytes) {
  TensorDataset data = stripes(30, 1);
  for (const DType compute : {DType::kF32, DType::kF16}) {
    const auto trained = [&](bool prepared) {
      Trainer t = trainer_for(small_net(true, 0.3), {.batch = 8, .compute = compute, .seed = 5});
      if (prepared) t.prepare(30, 30);
      EpochResult r;
      t.train_epoch(data, r);
      if (prepared) t.prepare(6, 0);
      t.train_epoch(data, r);
      return std::pair(bytes_of(t.checkpoint()), t.evaluate(data).loss);
    };
    EXPECT_TRUE(trained(true) == trained(false));
  }
}

TEST(Trainer, ProfilesTheLastStepAndItsOptimizer) {
  TensorDataset data = stripes(12, 1);
  Trainer t(small_net(false, 0), {"conv.w"}, cpu(), {.batch = 4});
  t.prepare(4, 4);
  EXPECT_TRUE(t.profile().empty()) << "that was no step";
  t.set_profiling(true);
  t.reset_optimizer();
  EpochResult epoch;
  t.train_epoch(data, epoch);
  std::set<std::string> ops;
  for (const auto& node : t.profile()) {
    EXPECT_GT(node.seconds, 0) << node.op;
    ops.insert(node.op);
  }
  EXPECT_TRUE(ops.contains("ConvGradWeight"));
  EXPECT_TRUE(ops.contains("AdamStep"));
}

TEST(Trainer, KnowsHowManyRowsFitIntoMemory) {
  const Model m = small_net(true, 0.3);
  const Trainer trainer(m, weights_of(m), cpu(), {.batch = 16});
  EXPECT_EQ(trainer.rows_that_fit(0), 1);
  const int64_t some = trainer.rows_that_fit(int64_t{64} << 20);
  // Of a row there are at least the pixels and what the convolution makes of them.
  EXPECT_GT(some, 100);
  EXPECT_LT(some, (int64_t{64} << 20) / (9 * kSide * kSide * 4));
  const int64_t twice = trainer.rows_that_fit(int64_t{128} << 20);
  EXPECT_NEAR(static_cast<double>(twice), 2.0 * static_cast<double>(some),
              0.01 * static_cast<double>(some));
}

TEST(Trainer, TheSeedDecides) {
  TensorDataset data = stripes(20, 1);
  const auto trained = [&](uint64_t seed) {
    Trainer t = trainer_for(small_net(false, 0.3), {.batch = 8, .seed = seed});
    EpochResult r;
    t.train_epoch(data, r);
    return bytes_of(t.checkpoint());
  };
  EXPECT_TRUE(trained(1) == trained(1));
  EXPECT_FALSE(trained(1) == trained(2));
}

TEST(Trainer, DropoutDropsOtherValuesAtEveryStep) {
  TensorDataset data = stripes(8, 1);
  Trainer t = trainer_for(small_net(false, 0.5), {.batch = 8, .schedule = {.lr = 0}});
  std::set<double> losses;
  EpochResult r;
  for (int epoch = 0; epoch < 5; ++epoch) {
    t.train_epoch(data, r);
    losses.insert(std::round(r.loss * 1e4));  // rows come in another order: other last bits
  }
  EXPECT_GT(losses.size(), 3U);
}

TEST(Trainer, APaddedBatchEqualsAnExactOne) {
  TensorDataset data = stripes(5, 1);
  const Model m = small_net(false, 0);
  const auto trained = [&](int64_t batch) {
    Trainer t = trainer_for(m, {.epochs = 1, .batch = batch, .schedule = {.lr = 0.1}});
    EpochResult r;
    t.train_epoch(data, r);
    return std::pair(r, t.checkpoint());
  };
  const auto [exact, exact_state] = trained(5);
  const auto [padded, padded_state] = trained(8);
  EXPECT_NEAR(padded.loss, exact.loss, 1e-6);
  EXPECT_EQ(padded.top1, exact.top1);
  for (const auto& [name, t] : exact_state.parameters) {
    EXPECT_LE(testing::largest_difference({padded_state.parameters.at(name).to_doubles()},
                                          {t.to_doubles()}),
              2e-5)
        << name;
  }
}

TEST(Trainer, RunningStatisticsAreThoseOfTheBatches) {
  TensorDataset data = stripes(8, 1);
  const Model m = small_net(true, 0);
  Trainer t = trainer_for(m, {.epochs = 1, .batch = 8});
  EpochResult r;
  t.train_epoch(data, r);
  Model front = m;  // up to the convolution
  front.outputs = {"c"};
  front.nodes.resize(1);
  std::vector<Tensor> x = {Tensor({DType::kF32, {8, 1, kSide, kSide}})};
  std::vector<int64_t> rows = {0, 1, 2, 3, 4, 5, 6, 7}, labels(8);
  data.fetch(rows, x, labels);
  const std::vector<double> c = interpret_outputs(bind(front, 8), x)[0].to_doubles();
  const Checkpoint state = t.checkpoint();
  constexpr size_t kPlane = kSide * kSide, kCount = 8 * kPlane;
  for (size_t k = 0; k < 8; ++k) {
    double mean = 0, square = 0;
    const auto at = [&](size_t i) { return c[(i / kPlane * 8 + k) * kPlane + i % kPlane]; };
    for (size_t i = 0; i < kCount; ++i) mean += at(i) / kCount;
    for (size_t i = 0; i < kCount; ++i) square += (at(i) - mean) * (at(i) - mean);
    EXPECT_NEAR(state.states.at("bn.mean").as<float>()[k], 0.1 * mean, 1e-5);
    EXPECT_NEAR(state.states.at("bn.var").as<float>()[k], 0.9 + 0.1 * square / (kCount - 1), 1e-5);
  }
  EXPECT_TRUE(t.model().initialisers.at("bn.var").same_bytes(state.states.at("bn.var")));
}

TEST(Trainer, FrozenBatchNormalizationKeepsItsStatistics) {
  TensorDataset data = stripes(16, 1);
  const Model m = small_net(true, 0);
  Trainer t(m, {"fc.w", "fc.b"}, cpu(), {.epochs = 1, .batch = 8});
  EpochResult r;
  t.train_epoch(data, r);
  EXPECT_TRUE(t.checkpoint().states.empty());
  EXPECT_TRUE(t.model().initialisers.at("bn.mean").same_bytes(m.initialisers.at("bn.mean")));
  EXPECT_TRUE(t.model().initialisers.at("conv.w").same_bytes(m.initialisers.at("conv.w")));
  EXPECT_FALSE(t.model().initialisers.at("fc.w").same_bytes(m.initialisers.at("fc.w")));
}

TEST(Trainer, SingleRowsTrainWhenTheBatchIsOne) {
  TensorDataset data = stripes(3, 1);
  const Model m = small_net(true, 0);
  Trainer t = trainer_for(m, {.epochs = 1, .batch = 1});
  EpochResult r;
  ASSERT_TRUE(t.train_epoch(data, r));
  EXPECT_EQ(t.checkpoint().optimizer_steps, 3);
  EXPECT_FALSE(t.model().initialisers.at("fc.w").same_bytes(m.initialisers.at("fc.w")));
  EXPECT_GT(r.loss, 0);
}

TEST(Trainer, ALabelOutOfRangeIsRefused) {
  for (int64_t label : {int64_t{-1}, int64_t{3}}) {
    TensorDataset data({Tensor({DType::kF32, {1, 1, kSide, kSide}})}, {label});
    Trainer t = trainer_for(small_net(false, 0), {.epochs = 1, .batch = 4});
    EpochResult r;
    EXPECT_THAT(error_of([&] { t.train_epoch(data, r); }),
                AllOf(HasSubstr("label " + std::to_string(label)), HasSubstr("3 classes")));
  }
}

TEST(Trainer, WhatCannotBeTrainedIsRefused) {
  const Model m = small_net(true, 0);
  EXPECT_THAT(error_of([&] { Trainer(m, {}, cpu(), {}); }), HasSubstr("nothing is trainable"));
  EXPECT_THAT(error_of([&] { Trainer(m, {"no.such"}, cpu(), {}); }), HasSubstr("'no.such'"));
  EXPECT_THAT(error_of([&] { trainer_for(m, {.batch = 0}); }), HasSubstr("not 0"));
  Model map = m;
  map.outputs = {"r"};
  EXPECT_THAT(error_of([&] { Trainer(map, {"conv.w"}, cpu(), {}); }),
              HasSubstr("[batch, classes]"));
  TensorDataset none({Tensor({DType::kF32, {0, 1, kSide, kSide}})}, {});
  Trainer t = trainer_for(m, {});
  EpochResult r;
  EXPECT_THAT(error_of([&] { t.train_epoch(none, r); }), HasSubstr("nothing to train on"));
}

TEST(Trainer, ACheckpointOfAnotherModelIsRefused) {
  Trainer t = trainer_for(small_net(true, 0), {});
  Checkpoint c = t.checkpoint();
  c.parameters.erase("fc.w");
  EXPECT_THAT(error_of([&] { t.restore(c); }), HasSubstr("'fc.w'"));
  c = t.checkpoint();
  c.states["bn.mean"] = Tensor({DType::kF32, {9}});
  EXPECT_THAT(error_of([&] { t.restore(c); }), HasSubstr("'bn.mean'"));
  c = t.checkpoint();
  c.step = -1;
  EXPECT_THAT(error_of([&] { t.restore(c); }), HasSubstr("-1"));
}

TEST(StepGraph, AFinalSoftmaxIsLookedThrough) {
  Model m = small_net(false, 0);
  m.nodes.push_back({"Softmax", {"logits"}, {"probabilities"}, {{"axis", int64_t{1}}}});
  Model with_softmax = m;
  with_softmax.outputs = {"probabilities"};
  TensorDataset data = stripes(6, 1);
  const auto loss = [&](const Model& model) {
    Trainer t(model, {"fc.w"}, cpu(), {.epochs = 1, .batch = 6});
    EpochResult r;
    t.train_epoch(data, r);
    return r.loss;
  };
  EXPECT_EQ(loss(with_softmax), loss(m));
  Trainer t(with_softmax, {"fc.w"}, cpu(), {});
  EXPECT_EQ(t.model().outputs, (std::vector<std::string>{"probabilities"}));
}

TEST(StepGraph, TrailingDimensionsOfOneAreDropped) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {2, 3, 4, 4}});
  g.mark_output(g.add1("GlobalAveragePool", {x}));
  EXPECT_EQ(with_plain_logits(g).shape(with_plain_logits(g).outputs()[0]), (Shape{2, 3}));
  g.set_outputs({x});
  EXPECT_THROW(with_plain_logits(g), Error);
}

}  // namespace
}  // namespace ndtrain
