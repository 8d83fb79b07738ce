#include "framework/train/learning_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/train/trainer.h"
#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"
#include "tests/train/small_net.h"

namespace ndtrain {
namespace {

using testing::cpu;
using testing::error_of;
using ::testing::HasSubstr;
using testing::small_net;
using testing::stripes;
using testing::weights_of;

Trainer net_trainer(const Model& m, const TrainerConfig& config) {
  return Trainer(m, weights_of(m), cpu(), config);
}

// A first step of SGD goes as far as its rate says.
TEST(LearningRates, EarlierLayersLearnAtLowerRates) {
  TensorDataset train = stripes(16, 1);
  const Model m = small_net(true, 0);
  TrainerConfig config{
      .batch = 16, .optimizer = {.kind = OptimizerConfig::Kind::kSgd}, .schedule = {.lr = 0.5}};
  Trainer plain = net_trainer(m, config);
  config.optimizer.layer_decay = 0.25;
  Trainer decayed = net_trainer(m, config);
  EpochResult r;
  ASSERT_TRUE(plain.train_epoch(train, r));
  ASSERT_TRUE(decayed.train_epoch(train, r));
  const Checkpoint all = plain.checkpoint(), some = decayed.checkpoint();
  for (const auto& [name, value] : all.parameters) {
    const double rate = name.starts_with("fc.") ? 1 : 0.25;
    const std::vector<double> from = m.initialisers.at(name).to_doubles(), to = value.to_doubles(),
                              got = some.parameters.at(name).to_doubles();
    double moved = 0;
    for (size_t i = 0; i < from.size(); ++i) {
      EXPECT_NEAR(got[i] - from[i], rate * (to[i] - from[i]), 1e-6) << name;
      moved += std::abs(to[i] - from[i]);
    }
    if (name != "conv.b") {  // which a normalisation hides
      EXPECT_GT(moved, 1e-3) << name;
    }
  }
}

// Adam's first step goes as far as the rate says, whatever the gradient (Kingma and Ba, algorithm
// 1: lr m / (sqrt(v) + eps), with m = g and v = g g), in double.
TEST(LearningRates, ParametersOfANameLearnAtARateOfTheirOwn) {
  TensorDataset train = stripes(16, 1);
  const Model m = small_net(true, 0);
  TrainerConfig config{.batch = 16, .schedule = {.lr = 0.25}};
  Trainer plain = net_trainer(m, config);
  config.optimizer.lr_of = {{"conv.*", 0.5}, {"fc.b", 0}, {"conv.w", 4}};
  config.optimizer.layer_decay = 0.5;
  Trainer own = net_trainer(m, config);
  EpochResult r;
  ASSERT_TRUE(plain.train_epoch(train, r));
  ASSERT_TRUE(own.train_epoch(train, r));
  const Checkpoint before = plain.checkpoint(), after = own.checkpoint();
  for (const auto& [name, value] : after.parameters) {
    const double factor = name == "conv.w"            ? 4 * 0.5
                          : name.starts_with("conv.") ? 0.5 * 0.5
                          : name == "fc.b"            ? 0
                          : name.starts_with("fc.")   ? 1
                                                      : 0.5;
    const std::vector<double> from = m.initialisers.at(name).to_doubles(),
                              first = before.optimizer.at(name + ".m").to_doubles(),
                              got = value.to_doubles();
    for (size_t i = 0; i < from.size(); ++i) {
      const double g = first[i] / (1 - 0.9);
      EXPECT_NEAR(got[i], from[i] - factor * 0.25 * g / (std::abs(g) + 1e-8), 2e-5) << name;
    }
  }
}

TEST(LearningRates, OneOfNoParameterIsRefusedWithNamesThatAreLikeIt) {
  for (const std::string pattern : {"cnov.w", "stem.*"}) {
    EXPECT_THAT(error_of([&] {
                  net_trainer(small_net(true, 0), {.optimizer = {.lr_of = {{pattern, 2}}}});
                }),
                ::testing::AllOf(HasSubstr("learning rate of '" + pattern + "': no parameter"),
                                 HasSubstr("there are ")));
  }
}

}  // namespace
}  // namespace ndtrain
