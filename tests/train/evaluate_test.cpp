#include "framework/train/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kClasses = 7;

// Evaluates these logits as they are.
Evaluation evaluate_logits(const std::vector<std::vector<float>>& logits,
                           const std::vector<int64_t>& labels, int64_t batch = 4) {
  const auto n = static_cast<int64_t>(logits.size());
  const auto classes = static_cast<int64_t>(logits[0].size());
  std::vector<float> all;
  for (const auto& row : logits) all.insert(all.end(), row.begin(), row.end());
  TensorDataset data({Tensor::of(DType::kF32, {n, classes}, all)}, labels);
  BatchPlans plans(
      [&](int64_t b) {
        Graph g;
        const ValueId x = g.add_input("x", {DType::kF32, {b, classes}});
        g.mark_output(g.add1("Neg", {g.add1("Neg", {x})}));
        return g;
      },
      testing::cpu(), batch);
  return evaluate(plans, data, {{DType::kF32, {1, classes}}});
}

TEST(Evaluate, CountsWhatAHandCounts) {
  const std::vector<std::vector<float>> logits = {
      {9, 0, 0, 0, 0, 0, 0},         // right
      {1, 2, 3, 4, 5, 6, 7},         // label 2 is fifth
      {1, 2, 3, 4, 5, 6, 7},         // label 1 is sixth
      {-1, -5, -1, -3, -2, -4, -6},  // label 2 ties with the prediction, 0
      {5, 5, 5, 5, 5, 5, 1}};        // label 5 ties with five others
  const std::vector<int64_t> labels = {0, 2, 1, 2, 5};
  for (int64_t batch : {1, 2, 4, 8}) {
    const Evaluation e = evaluate_logits(logits, labels, batch);
    EXPECT_EQ(e.rows, 5);
    EXPECT_DOUBLE_EQ(e.top1, 1.0 / 5);
    EXPECT_DOUBLE_EQ(e.top5, 4.0 / 5);
    EXPECT_EQ(e.predicted, (std::vector<int64_t>{0, 6, 6, 0, 0}));
    std::vector<int64_t> confusion(kClasses * kClasses);
    for (size_t i = 0; i < labels.size(); ++i) {
      ++confusion[static_cast<size_t>(labels[i] * kClasses + e.predicted[i])];
    }
    EXPECT_EQ(e.confusion, confusion);
    double loss = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      double sum = 0;
      for (float x : logits[i]) sum += std::exp(static_cast<double>(x));
      const double p = std::exp(logits[i][static_cast<size_t>(labels[i])]) / sum;
      loss -= std::log(p) / 5;
      EXPECT_NEAR(e.true_probability[i], p, 1e-6);
    }
    EXPECT_NEAR(e.loss, loss, 1e-6);
  }
}

TEST(Evaluate, LargeLogitsDoNotOverflow) {
  const Evaluation e = evaluate_logits({{1000, -1000}, {1000, -1000}}, {0, 1});
  EXPECT_DOUBLE_EQ(e.loss, 1000);
  EXPECT_DOUBLE_EQ(e.top1, 0.5);
  EXPECT_DOUBLE_EQ(e.top5, 1);
}

TEST(Evaluate, ScoresThatAreNotNumbersAreWrong) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Evaluation e =
      evaluate_logits({{nan, nan, nan, nan, nan, nan, nan}, {nan, 1, 2, 3, 4, 5, 6}}, {0, 0});
  EXPECT_EQ(e.top1, 0);
  EXPECT_EQ(e.top5, 0);
}

TEST(Evaluate, ALabelOutOfRangeIsRefused) {
  for (int64_t label : {int64_t{-1}, int64_t{2}}) {
    EXPECT_THAT(testing::error_of([&] {
                  evaluate_logits({{1, 2}}, {label});
                }),
                HasSubstr("2 classes"));
  }
}

TEST(TensorDataset, FetchesRowsInAnyOrder) {
  TensorDataset data({Tensor::of<float>(DType::kF32, {3, 2}, {0, 1, 2, 3, 4, 5})}, {7, 8, 9});
  std::vector<Tensor> inputs = {Tensor({DType::kF32, {4, 2}})};
  std::vector<int64_t> labels(4);
  const int64_t rows[] = {2, 0, 2};
  data.fetch(rows, inputs, labels);
  EXPECT_EQ(inputs[0].to_doubles(), (std::vector<double>{4, 5, 0, 1, 4, 5, 0, 0}));
  EXPECT_EQ(labels, (std::vector<int64_t>{9, 7, 9, 0}));
  EXPECT_THROW(TensorDataset({Tensor({DType::kF32, {2, 2}})}, {1}), Error);
}

}  // namespace
}  // namespace ndtrain
