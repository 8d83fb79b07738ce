#include "models/zoo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/rng.h"
#include "framework/onnx/export.h"
#include "framework/onnx/import.h"
#include "framework/passes/inference.h"
#include "framework/runtime/executor.h"
#include "framework/train/head.h"
#include "tests/support/sanitizers.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

// What torchvision 0.14 counts (sum of numel over parameters()); Inception-v3 with
// aux_logits=False.
struct Expected {
  const char* name;
  int64_t parameters;
  int64_t small_img_size;  // enough to run it on, quickly
};

constexpr Expected kTorchvision[] = {
    {"alexnet", 61100840, 224},     {"inception_v3", 23834568, 75},
    {"mobilenet_v2", 3504872, 64},  {"resnet18", 11689512, 64},
    {"resnet50", 25557032, 64},     {"resnext101_32x4d", 44177704, 64},
    {"squeezenet1_1", 1235496, 64}, {"tinynet", 88696, 48},
    {"vit_b_16", 86567656, 224},
};

std::string refusal(std::string_view name, const ZooOptions& options) {
  try {
    build_model(name, options);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

std::vector<double> logits(const Model& m, int64_t batch) {
  const Graph g = inference_graph(m, batch);
  EXPECT_EQ(g.outputs().size(), 1u);
  Tensor x(g.type(g.inputs()[0]));
  const Rng rng(1, "input");
  // The same first picture whatever the batch.
  for (size_t i = 0; i < x.as<float>().size(); ++i) {
    x.mutable_as<float>()[i] = static_cast<float>(rng.normal(i));
  }
  static const Device device(Backend::find("cpu"));
  const Plan plan(g, device);
  return Executor(plan).run(std::vector{x})[0].to_doubles();
}

class Zoo : public ::testing::TestWithParam<Expected> {};

TEST_P(Zoo, HasTorchvisionsParameterCountAndSurvivesAFile) {
  const Model m = build_model(GetParam().name);
  EXPECT_EQ(parameter_count(m), GetParam().parameters);
  const Model again = import_model(export_model(m));
  EXPECT_EQ(content_id(again), content_id(m));
}

TEST_P(Zoo, ComputesLogitsForAnyBatch) {
  if (support::under_sanitizer() && GetParam().parameters > 60'000'000) {
    GTEST_SKIP() << "minutes under a sanitizer; smaller networks have the same layers";
  }
  const Model m =
      build_model(GetParam().name, {.classes = 7, .img_size = GetParam().small_img_size});
  for (const int64_t batch : {1, 3}) {
    const Graph g = bind(m, batch);
    EXPECT_EQ(g.shape(g.outputs()[0]), (Shape{batch, 7}));
  }
  const std::vector<double> one = logits(m, 1), three = logits(m, 3);
  ASSERT_EQ(one.size(), 7u);
  ASSERT_EQ(three.size(), 21u);
  double largest = 0, differs = 0;
  for (size_t i = 0; i < 7; ++i) {
    largest = std::max(largest, std::abs(one[i]));
    differs = std::max(differs, std::abs(three[i] - three[i + 7]));
  }
  for (double v : three) EXPECT_TRUE(std::isfinite(v));
  for (size_t i = 0; i < 7; ++i) EXPECT_NEAR(three[i], one[i], 1e-5 * largest);
  EXPECT_GT(differs, 1e-7 * largest) << "the logits do not depend on the picture";
}

INSTANTIATE_TEST_SUITE_P(Models, Zoo, ::testing::ValuesIn(kTorchvision),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Zoo, NamesEveryArchitectureOnce) {
  std::set<std::string_view> names;
  for (const ZooEntry& e : zoo()) EXPECT_TRUE(names.insert(e.name).second) << e.name;
  EXPECT_EQ(names.size(), std::size(kTorchvision) + 1) << "vit has a test of its own";
  EXPECT_EQ(find_in_zoo("resnet"), nullptr);
}

TEST(Zoo, IsAFunctionOfTheSeed) {
  for (const char* name : {"tinynet", "squeezenet1_1", "mobilenet_v2", "vit"}) {
    const auto id = [&](uint64_t seed) {
      return content_id(build_model(name, {.classes = 3, .img_size = 64, .seed = seed}));
    };
    EXPECT_EQ(id(5), id(5)) << name;
    EXPECT_NE(id(5), id(6)) << name;
  }
}

TEST(Zoo, BuildsAVisionTransformerOfAnyForm) {
  const ZooOptions options{.classes = 5, .img_size = 48, .vit = {8, 2, 64, 4}};
  const Model m = build_model("vit", options);
  // patches, class token, positions; two layers; norm; head.
  const int64_t layer = 4 * 64 + 4 * 64 * 64 + 4 * 64 + 2 * 4 * 64 * 64 + 4 * 64 + 64;
  EXPECT_EQ(parameter_count(m), 64 * 3 * 64 + 64 + 64 + 37 * 64 + 2 * layer + 2 * 64 + 5 * 64 + 5);
  EXPECT_EQ(logits(m, 2).size(), 10u);
  EXPECT_EQ(content_id(import_model(export_model(m))), content_id(m));
}

TEST(Zoo, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal("resnet", {}), HasSubstr("no architecture 'resnet'"));
  EXPECT_THAT(refusal("resnet18", {.classes = 0}), HasSubstr("classes is 0"));
  EXPECT_THAT(refusal("inception_v3", {.img_size = 74}), HasSubstr("image size is 74"));
  EXPECT_THAT(refusal("alexnet", {.img_size = 300}), HasSubstr("do not pool to 6 x 6"));
  EXPECT_THAT(refusal("vit", {.img_size = 100}), HasSubstr("patches of 16 pixels do not tile"));
  EXPECT_THAT(refusal("vit", {.vit = {.heads = 5}}), HasSubstr("5 heads do not divide"));
}

TEST(Zoo, EveryNetworkFreezesUpToItsClassifier) {
  for (const char* name : {"tinynet", "squeezenet1_1", "mobilenet_v2", "resnet18", "vit"}) {
    const Model m = build_model(name, {.classes = 3, .img_size = 64});
    const auto trainable = trainable_parameters(m, "auto");
    EXPECT_EQ(trainable.size(), 2u) << name;  // weight and bias
    for (const std::string& value : feature_names(m, trainable)) {
      const Graph g = bind(m, 3);
      EXPECT_EQ(g.shape(g.find(value))[0], 3) << name << ": " << value;
    }
  }
}

TEST(Zoo, FreezesByTorchvisionsNames) {
  const Model m = build_model("resnet18", {.classes = 3, .img_size = 64});
  EXPECT_EQ(feature_names(m, trainable_parameters(m, "layer3")),
            std::vector<std::string>{"layer3"});
  const Model v = build_model("vit", {.classes = 3, .img_size = 64});
  const std::string layer = "encoder.layers.encoder_layer_2";
  EXPECT_EQ(feature_names(v, trainable_parameters(v, layer)), std::vector<std::string>{layer});
}

}  // namespace
}  // namespace ndtrain
