// What a fine-tuning of the classifier alone costs to send.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include "framework/train/trainer.h"
#include "ndp/deltas/delta.h"
#include "tests/deltas/some_model.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain::ndp {
namespace {

using testing::cpu;

constexpr int64_t kFeatures = 2048, kClasses = 100, kPhotos = 2000;

// Features as a network has them behind its last rectifier: not negative, half of them zero, some
// of them typical of the class.
TensorDataset features(uint64_t seed) {
  Rng rng(seed, "features");
  Tensor x({DType::kF32, {kPhotos, kFeatures}});
  std::vector<int64_t> labels;
  auto values = x.mutable_as<float>();
  for (int64_t i = 0; i < kPhotos; ++i) {
    labels.push_back(i % kClasses);
    for (int64_t f = 0; f < kFeatures; ++f) {
      const double typical = (f * 7919 + labels.back() * 104729) % 97 < 5 ? 1 : 0;
      const double v = rng.next_normal() + typical;
      values[static_cast<size_t>(i * kFeatures + f)] = static_cast<float>(std::max(v, 0.0));
    }
  }
  return TensorDataset({x}, labels);
}

Model head() {
  Model m;
  m.inputs = {{"f", DType::kF32, {kBatch, kFeatures}}};
  m.outputs = {"logits"};
  m.initialisers["fc.w"] = testing::drawn(DType::kF32, {kClasses, kFeatures}, Rng(1, "head"));
  m.initialisers["fc.b"] = Tensor({DType::kF32, {kClasses}});
  m.nodes = {{"Gemm", {"f", "fc.w", "fc.b"}, {"logits"}, {{"transB", int64_t{1}}}}};
  return m;
}

TEST(HeadDelta, IsNoLargerThanTheHeadsWeightsCompressed) {
  Trainer trainer(head(), {"fc.w", "fc.b"}, cpu(),
                  {.epochs = 2, .batch = 64, .schedule = {.lr = 0.01}, .seed = 1});
  TensorDataset first = features(1), second = features(2);
  EpochResult result;
  trainer.train_epoch(first, result);
  const std::string before = export_model(trainer.model());
  trainer.train_epoch(second, result);
  EXPECT_GT(result.top1, 0.3) << "nothing was learned";
  const std::string after = export_model(trainer.model());

  const Delta delta = make_delta(before, after).or_throw();
  EXPECT_EQ(apply_delta(before, delta.bytes).or_throw(), after);
  std::string weights;
  for (const auto& [name, t] : trainer.model().initialisers) {
    weights.append(static_cast<const char*>(t.data()), t.bytes());
  }
  std::string packed(ZSTD_compressBound(weights.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), weights.data(), weights.size(), 19));
  fmt::print("head of {} x {}: f32 weights {} bytes, zstd -19 of them {}, delta {}\n", kClasses,
             kFeatures, weights.size(), packed.size(), delta.bytes.size());
  EXPECT_LE(delta.bytes.size(), packed.size() + 2048);
}

}  // namespace
}  // namespace ndtrain::ndp
