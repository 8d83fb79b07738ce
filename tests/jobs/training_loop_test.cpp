#include "ndp/jobs/training_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "framework/testing/memory_fs.h"

namespace ndtrain::ndp {
namespace {

using ::testing::ElementsAre;

// Epochs of one step, each better than the one before. What `fails` says of a checkpoint is lost,
// with all since the last one that was kept.
class FakeTraining final : public Training {
 public:
  std::function<bool(int64_t checkpoints)> fails;
  std::function<Checkpoint()> saved;
  std::function<Evaluation(int64_t epochs)> evaluates;

  bool train_epoch(Dataset& /*data*/, EpochResult& result, const OnStep& on_step) override {
    (void)on_step(1, 1);
    result = {.epoch = epoch_++, .loss = 1};
    ++trained;
    return true;
  }
  Evaluation evaluate(Dataset& /*data*/) override {
    if (evaluates) return evaluates(epoch_);
    return {.rows = 1, .top1 = static_cast<double>(epoch_) / 10};
  }
  const Model& model() override { return model_; }
  Checkpoint checkpoint() override {
    if (fails(++checkpoints_)) {
      restore(saved());
      throw WentBack(saved());
    }
    Checkpoint c;
    c.epoch = epoch_;
    return c;
  }
  void restore(const Checkpoint& c) override { epoch_ = c.epoch; }
  int64_t epoch() const override { return epoch_; }
  int64_t batch() const override { return 1; }
  void scale_lr(double /*factor*/) override {}
  void reset_optimizer() override {}

  int trained = 0;

 private:
  int64_t epoch_ = 0, checkpoints_ = 0;
  Model model_;
};

std::vector<int64_t> epochs_of(const std::vector<EpochRow>& rows) {
  std::vector<int64_t> epochs;
  for (const EpochRow& row : rows) epochs.push_back(row.epoch);
  return epochs;
}

// Of each epoch the best one's checkpoint comes first, then the last one's.
TEST(TrainingLoop, WhatIsTrainedAgainHasItsRowOnce) {
  for (int64_t lost = 1; lost <= 6; ++lost) {
    SCOPED_TRACE("checkpoint " + std::to_string(lost));
    MemoryFs fs;
    ManualClock clock;
    NoProgress quiet;
    RunDirectory run(fs, clock, "/run", false);
    FakeTraining training;
    TrainingLoop loop(fs, run, training, clock, quiet, "print");
    training.fails = [lost](int64_t checkpoint) { return checkpoint == lost; };
    training.saved = [&] { return loop.saved().value_or(Checkpoint{}); };
    TensorDataset data({Tensor({DType::kF32, {1, 1}})}, {0});
    while (training.epoch() < 3) ASSERT_TRUE(loop.train_epoch(data, &data, 3));
    EXPECT_EQ(training.trained, 4);
    EXPECT_EQ(loop.best_epoch(), 2);
    EXPECT_THAT(epochs_of(run.epochs()), ElementsAre(1, 2, 3));
    EXPECT_THAT(epochs_of(parse_metrics(fs.read("/run/metrics.jsonl").or_throw())),
                ElementsAre(1, 2, 3));
    const Checkpoint last = loop.saved().value();
    EXPECT_EQ(last.epoch, 3);
    EXPECT_EQ(last.best_epoch, 2);
    EXPECT_EQ(last.best_top1, 0.3);
  }
}

// Rises in top-1 each epoch; its loss is least in the second, macro F1 highest in the third of
// four.
TEST(TrainingLoop, TheBestEpochIsThatOfTheMetric) {
  for (const auto& [metric, best] :
       std::vector<std::pair<BestMetric, int64_t>>{{BestMetric::kTop1, 3},
                                                   {BestMetric::kTop5, 0},
                                                   {BestMetric::kLoss, 1},
                                                   {BestMetric::kMacroF1, 2}}) {
    MemoryFs fs;
    ManualClock clock;
    NoProgress quiet;
    RunDirectory run(fs, clock, "/run", false);
    FakeTraining training;
    training.fails = [](int64_t) { return false; };
    training.evaluates = [](int64_t epochs) {
      Evaluation e{.rows = 2, .top1 = static_cast<double>(epochs) / 10, .top5 = 1};
      e.loss = epochs == 2 ? 1.5 : 2;
      e.confusion =
          epochs == 3 ? std::vector<int64_t>{1, 0, 0, 1} : std::vector<int64_t>{1, 0, 1, 0};
      return e;
    };
    TrainingLoop loop(fs, run, training, clock, quiet, "print", metric);
    TensorDataset data({Tensor({DType::kF32, {1, 1}})}, {0});
    while (training.epoch() < 4) ASSERT_TRUE(loop.train_epoch(data, &data, 4));
    EXPECT_EQ(loop.best_epoch(), best) << name_of(metric);
    TrainingLoop again(fs, run, training, clock, quiet, "print", metric);
    ASSERT_TRUE(again.restore());
    EXPECT_EQ(again.best_epoch(), best);
  }
}

}  // namespace
}  // namespace ndtrain::ndp
