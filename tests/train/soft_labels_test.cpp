// Losses of labels of one class and of two, with class weights and smoothing, against PyTorch.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/train/trainer.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

constexpr int64_t kSoftRows = 6, kFeatures = 4, kClasses = 3;

struct GoldenLoss {
  const char* name;
  bool soft, weighted;
  double smoothing, loss;
  std::vector<double> gradient;  // of the weights
};

// tools/golden/soft_labels.py says what the rows and the weights are.
const std::vector<GoldenLoss>& golden_losses() {
  static const std::vector<GoldenLoss> all = {
#include "tests/train/golden_soft_labels.inc"
  };
  return all;
}

class GoldenRows final : public Dataset {
 public:
  explicit GoldenRows(const GoldenLoss& g) : golden_(g) {}

  int64_t size() const override { return kSoftRows; }
  int64_t labels_of_row() const override { return golden_.soft ? 2 : 1; }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override {
    const auto x = inputs[0].mutable_as<float>();
    for (size_t at = 0; at < rows.size(); ++at) {
      const int64_t i = rows[at], n = labels_of_row();
      for (int64_t j = 0; j < kFeatures; ++j) {
        x[at * kFeatures + static_cast<size_t>(j)] =
            static_cast<float>((3 * i + 7 * j) % 11 - 5) / 4;
      }
      for (int64_t k = 0; k < n; ++k) {
        labels[at * static_cast<size_t>(n) + static_cast<size_t>(k)] = (i + k) % kClasses;
      }
    }
  }
  double weight(int64_t row, int64_t label) const override {
    constexpr double kClassWeights[] = {2, 0.5, 1};
    const double own = static_cast<double>(row + 1) / 8;
    const double share = !golden_.soft ? 1 : label == 0 ? own : 1 - own;
    return golden_.weighted ? share * kClassWeights[(row + label) % kClasses] : share;
  }

 private:
  const GoldenLoss& golden_;
};

Model linear_classifier() {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, kFeatures}}};
  m.outputs = {"logits"};
  std::vector<float> w;
  for (int64_t i = 0; i < kClasses; ++i) {
    for (int64_t j = 0; j < kFeatures; ++j)
      w.push_back(static_cast<float>((5 * i + 2 * j) % 7 - 3) / 8);
  }
  m.initialisers["w"] = Tensor::of(DType::kF32, {kClasses, kFeatures}, w);
  m.nodes.push_back({"Gemm", {"x", "w"}, {"logits"}, {{"transB", int64_t{1}}}});
  return m;
}

TEST(SoftLabels, HavePyTorchsLossAndGradient) {
  const Model m = linear_classifier();
  ASSERT_EQ(golden_losses().size(), 4U);
  for (const GoldenLoss& g : golden_losses()) {
    for (const int64_t parts : {1, 2}) {
      GoldenRows rows(g);
      const TrainerConfig config{.batch = kSoftRows,
                                 .optimizer = {.kind = OptimizerConfig::Kind::kSgd, .momentum = 0},
                                 .schedule = {.lr = 1},  // a step is the gradient
                                 .label_smoothing = g.smoothing,
                                 .labels_of_row = rows.labels_of_row(),
                                 .accumulate = parts};
      Trainer t(m, {"w"}, testing::cpu(), config);
      EpochResult r;
      ASSERT_TRUE(t.train_epoch(rows, r));
      EXPECT_NEAR(r.loss, g.loss, 1e-6) << g.name;
      const std::vector<double> from = m.initialisers.at("w").to_doubles(),
                                to = t.checkpoint().parameters.at("w").to_doubles();
      for (size_t i = 0; i < from.size(); ++i) {
        EXPECT_NEAR(from[i] - to[i], g.gradient[i], 1e-6) << g.name << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace ndtrain
