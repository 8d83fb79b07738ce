#include "framework/train/useful_cuts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/rng.h"
#include "framework/graph/cuts.h"
#include "framework/passes/inference.h"
#include "framework/runtime/batch_plans.h"
#include "framework/train/head.h"
#include "framework/train/trainer.h"
#include "models/zoo.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using Names = std::vector<std::string>;

int64_t elements(const Model& m, const Names& values) {
  const Graph g = bind(m, 1);
  int64_t n = 0;
  for (const std::string& v : values) n += g.shape(g.find(v)).count();
  return n;
}

TEST(UsefulCuts, EndWhereTrainingBegins) {
  for (const char* name : {"tinynet", "resnet18", "mobilenet_v2"}) {
    const Model m = build_model(name, {.classes = 7, .img_size = 64});
    const Names trainable = trainable_parameters(m, "auto");
    const auto cuts = useful_cuts(m, trainable);
    ASSERT_GT(cuts.size(), 1u) << name;
    EXPECT_EQ(cuts.back(), feature_names(m, trainable)) << name;
    for (const Names& cut : cuts) {
      const Model head = extract(m, cut, m.outputs);
      for (const std::string& p : trainable) {
        EXPECT_TRUE(head.initialisers.contains(p)) << name << ": " << p;
      }
    }
  }
}

TEST(UsefulCuts, AnEarlierFreezeLeavesFewer) {
  const Model m = build_model("tinynet", {.classes = 7, .img_size = 32});
  const auto all = useful_cuts(m, trainable_parameters(m, "auto"));
  const auto some = useful_cuts(m, trainable_parameters(m, "layer1"));
  EXPECT_LT(some.size(), all.size());
  EXPECT_EQ(some.back(), feature_names(m, trainable_parameters(m, "layer1")));
}

TEST(UsefulCuts, NoneWhenNothingIsFrozen) {
  const Model m = build_model("tinynet", {.classes = 7, .img_size = 32});
  EXPECT_TRUE(useful_cuts(m, trainable_parameters(m, "none")).empty());
}

// Whatever is left out is followed, before the next weights, by a cut that is no larger.
TEST(UsefulCuts, LeaveOutOnlyWhatALaterCutReplaces) {
  const Model m = build_model("resnet18", {.classes = 7, .img_size = 64});
  const Names trainable = trainable_parameters(m, "auto");
  const auto useful = useful_cuts(m, trainable);
  const Graph g = bind(m, 1);
  size_t at = 0, left_out = 0;
  for (const Cut& cut : legal_cuts(g)) {
    if (at == useful.size()) break;
    if (useful[at] == Names{g.value(cut.feature).name}) {
      ++at;
      continue;
    }
    ++left_out;
    EXPECT_GE(cut.elements, elements(m, useful[at])) << g.value(cut.feature).name;
    const Model between = extract(m, Names{g.value(cut.feature).name}, useful[at]);
    for (const ModelNode& n : between.nodes) EXPECT_NE(n.op, "Conv") << n.outputs[0];
  }
  EXPECT_GT(left_out, 0u);
  EXPECT_EQ(at, useful.size());
}

// What is frozen behind a cut computes as it does before one, batch normalisation and all.
TEST(UsefulCuts, TrainingBehindAnyOfThemGivesTheSameWeights) {
  const Model m = build_model("resnet18", {.classes = 3, .img_size = 32});
  const Names trainable = trainable_parameters(m, "layer4.0");
  Tensor photos({DType::kF32, {10, 3, 32, 32}});
  Rng rng(1, "photos");
  for (float& v : photos.mutable_as<float>()) v = static_cast<float>(rng.next_normal());
  const std::vector<int64_t> labels = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0};
  const auto cuts = useful_cuts(m, trainable);
  std::map<std::string, Tensor> expected;
  for (const size_t i : {cuts.size() - 1, cuts.size() - 2, size_t{0}}) {
    const Names input = {m.inputs[0].name};
    const Model extractor = extract(m, input, cuts[i]);
    BatchPlans plans([&](int64_t b) { return inference_graph(extractor, b); }, testing::cpu(), 8);
    TensorDataset rows(plans.run(std::vector{photos}), labels);
    Trainer trainer(extract(m, cuts[i], m.outputs), trainable, testing::cpu(),
                    {.epochs = 2, .batch = 4});
    EpochResult result;
    while (trainer.epoch() < 2) trainer.train_epoch(rows, result);
    const auto& trained = trainer.model().initialisers;
    if (expected.empty()) expected = trained;
    for (const std::string& name : trainable) {
      EXPECT_TRUE(trained.at(name).same_bytes(expected.at(name))) << cut_name(cuts[i]) << name;
    }
  }
}

}  // namespace
}  // namespace ndtrain
