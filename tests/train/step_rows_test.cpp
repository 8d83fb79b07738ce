#include "framework/train/step_rows.h"

#include <gtest/gtest.h>

#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"
#include "tests/train/small_net.h"

namespace ndtrain {
namespace {

using testing::small_net, testing::stripes;

TEST(StepRows, AreFoundFirstOrAmongTheFiveBest) {
  const Tensor logits =
      Tensor::of<float>(DType::kF32, {5, 7}, {9, 0, 0, 0, 0, 0, 0,  // first
                                              1, 2, 3, 4, 5, 6, 7,  // fifth
                                              1, 2, 3, 4, 5, 6, 7,  // sixth
                                              5, 5, 5, 5, 5, 5, 1,  // five others as high
                                              9, 0, 0, 0, 0, 0, 0});
  Tensor labels = Tensor::of<int64_t>(DType::kI64, {5}, {0, 2, 1, 5, 0});
  Tensor weights({DType::kF32, {5}});
  ShardReport report{.loss = 1, .hits = 2, .top5 = 3};
  add_rows(report, 0.5F, logits, {{}, labels, weights}, 4);
  EXPECT_EQ(report.loss, 1.5F);
  EXPECT_EQ(report.hits, 2 + 1);
  EXPECT_EQ(report.top5, 3 + 3);
}

TEST(StepRows, OfSoftLabelsAreOfTheFirstOne) {
  const Tensor logits = Tensor::of<float>(DType::kF32, {2, 3}, {9, 0, 0, 0, 9, 0});
  Tensor labels = Tensor::of<int64_t>(DType::kI64, {2, 2}, {0, 1, 0, 1});
  Tensor weights({DType::kF32, {2, 2}});
  ShardReport report;
  add_rows(report, 0, logits, {{}, labels, weights}, 2);
  EXPECT_EQ(report.hits, 1);
}

// Rows of as many labels, each of which is another class, with what it weighs.
class SoftRows final : public Dataset {
 public:
  SoftRows(TensorDataset rows, int64_t labels) : rows_(std::move(rows)), labels_(labels) {}

  int64_t size() const override { return rows_.size(); }
  int64_t labels_of_row() const override { return labels_; }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override {
    std::vector<int64_t> own(rows.size());
    rows_.fetch(rows, inputs, own);
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto k = static_cast<int64_t>(i) % labels_;
      labels[i] = (own[i / static_cast<size_t>(labels_)] + k) % 3;
    }
  }
  double weight(int64_t row, int64_t label) const override {
    return 0.5 + 0.25 * static_cast<double>((row + label) % 4);
  }

 private:
  TensorDataset rows_;
  int64_t labels_;
};

// One of the labels of each row of SoftRows, as a row of its own.
class HardRows final : public Dataset {
 public:
  explicit HardRows(SoftRows& soft) : soft_(soft) {}

  int64_t size() const override { return 2 * soft_.size(); }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override {
    std::vector<int64_t> of_soft, both(2 * rows.size());
    for (const int64_t row : rows) of_soft.push_back(row / 2);
    soft_.fetch(of_soft, inputs, both);
    for (size_t i = 0; i < rows.size(); ++i) {
      labels[i] = both[2 * i + static_cast<size_t>(rows[i] % 2)];
    }
  }
  // The mean is over twice as many rows.
  double weight(int64_t row, int64_t) const override { return 2 * soft_.weight(row / 2, row % 2); }

 private:
  SoftRows& soft_;
};

TEST(StepRows, OfSoftLabelsTrainAsARowForEachLabel) {
  const Model m = small_net(false, 0);
  for (const int shards : {1, 2}) {
    const TrainerConfig hard{.batch = 24, .schedule = {.lr = 0.05}, .label_smoothing = 0.1};
    TrainerConfig soft = hard;
    soft.batch = 12;
    soft.shards = shards;
    soft.labels_of_row = 2;
    SoftRows rows(stripes(12, 3), 2);
    HardRows each(rows);
    Trainer a(m, testing::weights_of(m), testing::cpu(), soft),
        b(m, testing::weights_of(m), testing::cpu(), hard);
    EpochResult of_soft, of_hard;
    for (int epoch = 0; epoch < 3; ++epoch) {  // a step each
      ASSERT_TRUE(a.train_epoch(rows, of_soft));
      ASSERT_TRUE(b.train_epoch(each, of_hard));
      EXPECT_NEAR(of_soft.loss, of_hard.loss, 1e-5);
    }
    for (const auto& [name, value] : a.checkpoint().parameters) {
      const std::vector<double> x = value.to_doubles(),
                                y = b.checkpoint().parameters.at(name).to_doubles();
      for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 2e-4) << name;
    }
  }
}

TEST(StepRows, HaveRoomForAsManyLabelsAsTheTrainingWasMadeFor) {
  const Model m = small_net(false, 0);
  const TrainerConfig config{.batch = 4};
  TrainerConfig two = config;
  two.labels_of_row = 2;
  SoftRows rows(stripes(8, 3), 2);
  Trainer plain(m, testing::weights_of(m), testing::cpu(), config);
  EpochResult r;
  EXPECT_EQ(testing::error_of([&] { plain.train_epoch(rows, r); }),
            "2 labels of a row, but the step takes 1");
  // Rows of one label are what they are without the room.
  TensorDataset data = stripes(8, 3);
  Trainer one(m, testing::weights_of(m), testing::cpu(), config),
      roomy(m, testing::weights_of(m), testing::cpu(), two);
  ASSERT_TRUE(one.train_epoch(data, r));
  ASSERT_TRUE(roomy.train_epoch(data, r));
  EXPECT_EQ(testing::bytes_of(one.checkpoint()), testing::bytes_of(roomy.checkpoint()));
  two.labels_of_row = 0;
  EXPECT_THROW(Trainer(m, testing::weights_of(m), testing::cpu(), two), Error);
}

// Nothing is learned, so that all steps see one model.
TEST(StepRows, OfAnEpochAreCountedAsAnEvaluationCountsThem) {
  const Model m = small_net(false, 0, 9);
  TensorDataset data = stripes(50, 3);
  for (const int shards : {1, 3}) {
    for (const int64_t accumulate : {1, 2}) {
      Trainer t(m, testing::weights_of(m), testing::cpu(),
                {.epochs = 1,
                 .batch = 12,
                 .schedule = {.lr = 0},
                 .accumulate = accumulate,
                 .shards = shards});
      EpochResult r;
      ASSERT_TRUE(t.train_epoch(data, r));
      const Evaluation e = t.evaluate(data);
      EXPECT_DOUBLE_EQ(r.top1, e.top1);
      EXPECT_DOUBLE_EQ(r.top5, e.top5);
      EXPECT_TRUE(e.top5 > e.top1 && e.top5 < 1) << e.top5;
    }
  }
}

}  // namespace
}  // namespace ndtrain
