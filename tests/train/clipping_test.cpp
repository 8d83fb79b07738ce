// Steps whose gradients are clipped, in one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/train/local_sync.h"
#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"
#include "tests/train/small_net.h"

namespace ndtrain {
namespace {

using testing::bytes_of;
using testing::cpu;
using testing::error_of;
using ::testing::HasSubstr;
using testing::small_net;
using testing::stripes;

constexpr double kLr = 0.5;

// After one step of plain gradient descent.
std::map<std::string, std::vector<double>> after_a_step(double clip_norm, int shards) {
  const Model m = small_net(false, 0);
  Trainer t(
      m, testing::weights_of(m), cpu(),
      {.batch = 24,
       .optimizer = {.kind = OptimizerConfig::Kind::kSgd, .momentum = 0, .clip_norm = clip_norm},
       .schedule = {.lr = kLr},
       .shards = shards});
  TensorDataset data = stripes(24, 1);
  EpochResult r;
  EXPECT_TRUE(t.train_epoch(data, r));
  EXPECT_EQ(t.clip_exposed_s() > 0, clip_norm > 0);
  std::map<std::string, std::vector<double>> values;
  for (const auto& [name, value] : t.checkpoint().parameters) values[name] = value.to_doubles();
  return values;
}

TEST(Clipping, ShortensAllGradientsToTheNormTogether) {
  for (const int shards : {1, 3}) {
    const Model m = small_net(false, 0);
    const auto plain = after_a_step(0, shards);
    double squares = 0;
    for (const auto& [name, values] : plain) {
      const std::vector<double> before = m.initialisers.at(name).to_doubles();
      for (size_t i = 0; i < values.size(); ++i)
        squares += std::pow((before[i] - values[i]) / kLr, 2);
    }
    const double norm = std::sqrt(squares), most = norm / 3;
    const auto clipped = after_a_step(most, shards);
    for (const auto& [name, values] : clipped) {
      const std::vector<double> before = m.initialisers.at(name).to_doubles();
      for (size_t i = 0; i < values.size(); ++i) {
        const double expected = before[i] + (plain.at(name)[i] - before[i]) * most / (norm + 1e-6);
        EXPECT_NEAR(values[i], expected, 1e-6) << name;
      }
    }
    EXPECT_EQ(after_a_step(norm * 2, shards), plain) << "shorter gradients stay as they are";
  }
}

Trainer in_f16(double clip_norm) {
  const Model m = small_net(false, 0);
  return {m,
          testing::weights_of(m),
          cpu(),
          {.batch = 8, .optimizer = {.clip_norm = clip_norm}, .compute = DType::kF16}};
}

// Gradients of this net are below 100, but not times the loss's scale.
TEST(Clipping, IsOfGradientsWithoutTheLosssScale) {
  TensorDataset data = stripes(24, 1);
  const auto trained = [&](double clip_norm) {
    Trainer t = in_f16(clip_norm);
    EpochResult r;
    EXPECT_TRUE(t.train_epoch(data, r));
    EXPECT_GT(t.checkpoint().optimizer_steps, 0);
    return bytes_of(t.checkpoint());
  };
  EXPECT_TRUE(trained(100) == trained(0));
  EXPECT_FALSE(trained(0.01) == trained(0));
}

TEST(Clipping, OfAStepThatIsLeftOutIsNone) {
  TensorDataset data = stripes(8, 1);
  Trainer t = in_f16(0.1);
  Checkpoint before = t.checkpoint();
  before.loss_scale.value = LossScale::kHighest;
  t.restore(before);
  EpochResult r;
  ASSERT_TRUE(t.train_epoch(data, r));
  EXPECT_EQ(t.checkpoint().optimizer_steps, 0);
  EXPECT_TRUE(t.checkpoint().parameters.at("conv.w").same_bytes(before.parameters.at("conv.w")));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(t.train_epoch(data, r));
  EXPECT_GT(t.checkpoint().optimizer_steps, 0);
}

// Fails at the end of its second step, as where the norm is not finite.
class FailsAtTheEnd final : public GradientSync {
 public:
  FailsAtTheEnd(ParameterSpace& parameters, Optimizer& optimizer) : local_(parameters, optimizer) {}
  void begin(const HyperParameters& hyper) override { local_.begin(hyper); }
  void backward_done() override {
    if (++ended_ == 2) throw Error("no norm");
    local_.backward_done();
  }
  void skip() override {}
  void flush() override {}

 private:
  LocalSync local_;
  int ended_ = 0;
};

TEST(Clipping, AStepWhoseNormIsNoneLeavesNoTrace) {
  TensorDataset data = stripes(24, 1);
  const Model m = small_net(true, 0.3);
  const auto trainer = [&](const Trainer::MakeSync& make_sync) {
    return Trainer(m, testing::weights_of(m), cpu(), {.batch = 8}, make_sync);
  };
  Trainer undisturbed = trainer({}),
          t = trainer([](const Trainer::Shared&s) {
            return std::make_unique<FailsAtTheEnd>(s.parameters, s.optimizer);
          });
  EpochResult r;
  EXPECT_EQ(error_of([&] { t.train_epoch(data, r); }), "no norm");
  EXPECT_EQ(t.checkpoint().optimizer_steps, 1);
  ASSERT_TRUE(t.train_epoch(data, r));
  ASSERT_TRUE(undisturbed.train_epoch(data, r));
  EXPECT_TRUE(bytes_of(t.checkpoint()) == bytes_of(undisturbed.checkpoint()));
}

TEST(Clipping, ANormThatIsNoneIsRefused) {
  for (const double bad : {-1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_THAT(error_of([&] { in_f16(bad); }), HasSubstr("clip_norm"));
  }
}

}  // namespace
}  // namespace ndtrain
