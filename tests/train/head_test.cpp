#include "framework/train/head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/onnx/export.h"
#include "framework/onnx/import.h"
#include "framework/testing/memory_fs.h"
#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using testing::add_weight;
using ::testing::AllOf;
using testing::error_of;
using testing::flattening_model;
using ::testing::HasSubstr;
using testing::interpret_named;
using testing::named_inputs;
using Names = std::vector<std::string>;

// As SqueezeNet ends: Dropout, Conv, Relu, pool, Reshape to [N, 7].
Model convolution_head() {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 3, 4, 4}}};
  m.outputs = {"logits"};
  add_weight(m, "features.0.weight", {4, 3, 3, 3});
  add_weight(m, "features.1.weight", {6, 4, 1, 1});
  add_weight(m, "classifier.1.weight", {7, 6, 1, 1});
  add_weight(m, "classifier.1.bias", {7});
  m.initialisers["ratio"] = Tensor::of<float>(DType::kF32, {}, {0.5F});
  m.initialisers["low"] = Tensor::of<float>(DType::kF32, {}, {0});
  m.initialisers["target"] = Tensor::i64({-1, 7});
  m.nodes = {{"Conv", {"x", "features.0.weight"}, {"f0"}, {}},
             {"Clip", {"f0", "low"}, {"f1"}, {}},
             {"Conv", {"f1", "features.1.weight"}, {"f2"}, {}},
             {"Relu", {"f2"}, {"f3"}, {}},
             {"Dropout", {"f3", "ratio"}, {"f4"}, {}},
             {"Conv", {"f4", "classifier.1.weight", "classifier.1.bias"}, {"c"}, {}},
             {"Relu", {"c"}, {"r"}, {}},
             {"GlobalAveragePool", {"r"}, {"p"}, {}},
             {"Reshape", {"p", "target"}, {"logits"}, {}}};
  return m;
}

TEST(Freeze, RatesOfLayersFallTowardsTheInput) {
  const std::map<std::string, double> want = {
      {"features.0.weight", 0.25}, {"low", 0.25},  // stands behind it
      {"features.1.weight", 0.5},  {"ratio", 0.5},
      {"classifier.1.weight", 1},  {"classifier.1.bias", 1}};
  EXPECT_EQ(layer_rates(convolution_head(), 0.5), want);
  for (const auto& [name, rate] : layer_rates(convolution_head(), 1)) EXPECT_EQ(rate, 1) << name;
}

TEST(Head, TheClassifierIsTheLastOpWithWeights) {
  const ClassifierNode conv = find_classifier(convolution_head());
  EXPECT_EQ(conv.node, 5U);
  EXPECT_EQ(conv.features, "f4");
  EXPECT_EQ(conv.weight, "classifier.1.weight");
  EXPECT_EQ(conv.bias, "classifier.1.bias");
  EXPECT_EQ(conv.classes, 7);
  const ClassifierNode gemm = find_classifier(flattening_model());
  EXPECT_EQ(gemm.features, "flat");
  EXPECT_EQ(gemm.weight, "fc.w");
  EXPECT_EQ(gemm.classes, 5);
  Model none = flattening_model();
  none.nodes.resize(0);
  EXPECT_THAT(error_of([&] { find_classifier(none); }), HasSubstr("no classifier"));
}

// The bias of a MatMul is what is added to it, wherever that node stands.
TEST(Head, TheBiasOfAMatMulIsFound) {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 4}}};
  m.outputs = {"y", "z"};
  add_weight(m, "w", {4, 3});
  add_weight(m, "b", {3});
  add_weight(m, "other", {4});
  m.nodes = {{"MatMul", {"x", "w"}, {"xw"}, {}},
             {"Add", {"x", "other"}, {"z"}, {}},
             {"Add", {"b", "xw"}, {"y"}, {}}};
  EXPECT_EQ(find_classifier(m).bias, "b");
  m.nodes[2].inputs = {"xw", "xw"};
  EXPECT_EQ(find_classifier(m).bias, "");
}

TEST(Head, ANewClassifierChangesTheClassesAlone) {
  for (const Model& m : {convolution_head(), flattening_model()}) {
    const Model changed = with_new_classifier(m, 11, 3);
    const Graph g = bind(changed, 2);
    EXPECT_EQ(g.shape(g.outputs()[0]), (Shape{2, 11}));
    const ClassifierNode c = find_classifier(changed);
    EXPECT_EQ(c.classes, 11);
    for (const auto& [name, t] : m.initialisers) {
      if (name == c.weight || name == c.bias || name == "target") continue;
      EXPECT_TRUE(changed.initialisers.at(name).same_bytes(t)) << name;
    }
    const Tensor& w = changed.initialisers.at(c.weight);
    const double bound = 1 / std::sqrt(static_cast<double>(w.shape().count() / 11));
    double largest = 0;
    for (float v : w.as<float>()) largest = std::max(largest, std::abs(static_cast<double>(v)));
    EXPECT_LE(largest, bound * (1 + 1e-6));
    EXPECT_GT(largest, bound / 2);
    EXPECT_EQ(content_id(with_new_classifier(m, 11, 3)), content_id(changed));
    EXPECT_NE(content_id(with_new_classifier(m, 11, 4)), content_id(changed));
  }
  EXPECT_THAT(error_of([] { with_new_classifier(convolution_head(), 1, 0); }), HasSubstr("not 1"));
}

// Whatever the layout of its weights, the old classes score as before.
TEST(Head, AClassifierThatGrowsScoresItsClassesAsBefore) {
  Model product = flattening_model();
  product.nodes.back() = {"MatMul", {"flat", "fc.w"}, {"product"}, {}};
  product.nodes.push_back({"Add", {"product", "fc.b"}, {"logits"}, {}});
  add_weight(product, "fc.w", {12, 5});
  for (const Model& m : {convolution_head(), flattening_model(), product}) {
    const int64_t before = find_classifier(m).classes;
    const Model grown = with_more_classes(m, before + 3, 4);
    const auto given = named_inputs(bind(m, 2), 2);
    const std::vector<double> was = interpret_named(bind(m, 2), given)[0];
    const std::vector<double> is = interpret_named(bind(grown, 2), given)[0];
    for (int64_t row = 0; row < 2; ++row) {
      for (int64_t c = 0; c < before; ++c) {
        EXPECT_EQ(is.at(static_cast<size_t>(row * (before + 3) + c)),
                  was.at(static_cast<size_t>(row * before + c)));
      }
    }
    EXPECT_THAT(error_of([&] { with_more_classes(m, before - 1, 0); }), HasSubstr("cannot grow"));
  }
}

TEST(Head, AnOpThatDoesNotDecideTheClassesIsRefused) {
  Model m = flattening_model();
  m.initialisers["fixed"] = Tensor::i64({-1, 1});
  m.nodes.push_back({"Reshape", {"logits", "fixed"}, {"column"}, {}});
  m.outputs = {"column"};
  EXPECT_THAT(error_of([&] { with_new_classifier(m, 9, 0); }),
              AllOf(HasSubstr("'fc.w'"), HasSubstr("--head linear")));
}

// What is trained in memory is the same model when it is loaded from its file.
TEST(Head, AChangedModelKeepsItsIdThroughAFile) {
  MemoryFs fs;
  for (const Model& m :
       {with_linear_head(convolution_head(), 5, 1), with_new_classifier(flattening_model(), 9, 1),
        with_rounded_features(convolution_head(), {"f4"})}) {
    export_model(fs, "m.onnx", m).or_throw();
    EXPECT_EQ(content_id(import_model(fs, "m.onnx")), content_id(m));
  }
}

TEST(Head, ALinearHeadReadsThePooledFeatures) {
  const Model m = with_linear_head(convolution_head(), 5, 1);
  const Graph g = bind(m, 3);
  EXPECT_EQ(g.shape(g.outputs()[0]), (Shape{3, 5}));
  EXPECT_EQ(m.initialisers.at("head.weight").shape(), (Shape{5, 6}));
  EXPECT_FALSE(m.initialisers.contains("classifier.1.weight"));
  EXPECT_EQ(trainable_parameters(m, "auto"), (Names{"head.weight", "head.bias"}));
  const Model flat = with_linear_head(flattening_model(), 5, 1);
  EXPECT_EQ(flat.initialisers.at("head.weight").shape(), (Shape{5, 12}));
  EXPECT_EQ(bind(flat, 1).shape(bind(flat, 1).outputs()[0]), (Shape{1, 5}));
}

TEST(Freeze, AutoLeavesTheClassifier) {
  const Names classifier = {"classifier.1.weight", "classifier.1.bias"};
  EXPECT_EQ(trainable_parameters(convolution_head(), "auto"), classifier);
  EXPECT_EQ(feature_names(convolution_head(), classifier), (Names{"f4"}));
}

TEST(Freeze, NumbersCountLayersWithWeights) {
  const Model m = convolution_head();
  EXPECT_EQ(trainable_parameters(m, "0"), trainable_parameters(m, "none"));
  EXPECT_EQ(trainable_parameters(m, "1"),
            (Names{"features.1.weight", "classifier.1.weight", "classifier.1.bias"}));
  EXPECT_EQ(trainable_parameters(m, "2"), trainable_parameters(m, "auto"));
  EXPECT_THAT(error_of([&] { trainable_parameters(m, "3"); }), HasSubstr("only 3 layers"));
}

TEST(Freeze, NumbersOfAFormulaAreNotTrained) {
  const Names all = trainable_parameters(convolution_head(), "none");
  EXPECT_EQ(all, (Names{"features.0.weight", "features.1.weight", "classifier.1.weight",
                        "classifier.1.bias"}));
  EXPECT_TRUE(feature_names(convolution_head(), all).empty());
}

TEST(Freeze, ASingleNumberIsTrainedButForOneThatPyTorchsExporterNames) {
  Model m = convolution_head();
  for (const char* name : {"val_82", "alpha", "val_head"}) {
    m.initialisers[name] = Tensor::of<float>(DType::kF32, {1}, {0.5F});
    m.nodes.push_back({"Mul", {m.outputs[0], name}, {std::string("times_") + name}, {}});
    m.outputs = {std::string("times_") + name};
  }
  const Names all = trainable_parameters(m, "none");
  EXPECT_THAT(all, ::testing::Contains("alpha"));
  EXPECT_THAT(all, ::testing::Contains("val_head"));
  EXPECT_THAT(all, ::testing::Not(::testing::Contains("val_82")));
}

TEST(Freeze, ANameIsAValueOrALayer) {
  const Model m = convolution_head();
  const Names rest = {"features.1.weight", "classifier.1.weight", "classifier.1.bias"};
  EXPECT_EQ(trainable_parameters(m, "f1"), rest);
  EXPECT_EQ(trainable_parameters(m, "features.0"), rest);
  EXPECT_EQ(trainable_parameters(m, "features"), trainable_parameters(m, "auto"));
  EXPECT_THAT(error_of([&] { trainable_parameters(m, "layer4"); }),
              AllOf(HasSubstr("layer4"), HasSubstr("logits"), HasSubstr("f4")));
  EXPECT_THAT(error_of([&] { trainable_parameters(m, "logits"); }), HasSubstr("nothing is left"));
}

TEST(Freeze, RunningStatisticsAreNeverTrained) {
  Model m = flattening_model();
  for (const char* name : {"scale", "bias", "mean", "var"}) add_weight(m, name, {3});
  m.nodes[1] = {"BatchNormalization", {"c", "scale", "bias", "mean", "var"}, {"h"}, {}};
  EXPECT_EQ(trainable_parameters(m, "none"), (Names{"conv.w", "scale", "bias", "fc.w", "fc.b"}));
}

TEST(RoundedFeatures, TheWholeComputesWhatTheHalvesDoOnF16) {
  const Model m = convolution_head();
  const Names features = feature_names(m, trainable_parameters(m, "auto"));
  const Graph whole = bind(with_rounded_features(m, features), 2);
  const Graph front = bind(extract(m, Names{"x"}, features), 2);
  const Graph rear = bind(extract(m, features, m.outputs), 2);
  const auto given = named_inputs(whole, 1);
  std::vector<double> crossing = interpret_named(front, given)[0];
  const std::vector<double> exact = crossing;
  for (double& v : crossing) v = rounded(v, DType::kF16);
  EXPECT_NE(crossing, exact);
  EXPECT_EQ(interpret_named(rear, {{features[0], crossing}}), interpret_named(whole, given));
}

TEST(RoundedFeatures, TakingThemOutGivesTheSameModel) {
  const Model m = convolution_head();
  for (const Names& features : {Names{"f4"}, Names{"f1"}, Names{"p"}}) {
    const Model rounded = with_rounded_features(m, features);
    EXPECT_NE(content_id(rounded), content_id(m));
    EXPECT_EQ(content_id(without_rounded_features(rounded)), content_id(m));
  }
  EXPECT_EQ(content_id(without_rounded_features(m)), content_id(m));
}

}  // namespace
}  // namespace ndtrain
