// Operators that detection and segmentation networks have, in the forms of their opsets, by what
// they compute. What becomes one op of ours is tested with it (tests/ops/vision_ops_test.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/onnx/export.h"
#include "tests/onnx/model_proto.h"

namespace ndtrain {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using Doubles = std::vector<double>;

auto about(const Doubles& expected) { return Pointwise(DoubleNear(1e-5), expected); }

onnx::NodeProto& only_node(onnx::ModelProto& m) { return *m.mutable_graph()->mutable_node(0); }

// x of these dims and more initialisers through one node to y.
onnx::ModelProto through(const std::string& op, int64_t opset, const std::vector<int64_t>& dims,
                         const Names& more = {}) {
  onnx::ModelProto m = empty_model(opset);
  add_input(m, "x", dims);
  Names inputs = {"x"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  add_node(m, op, inputs, {"y"});
  add_output(m, "y");
  return m;
}

// Of it, and of what our own export makes of it.
Doubles both_ways(const onnx::ModelProto& m, const Tensor& x) {
  const Doubles y = run_floats(m, {x});
  const Model model = import_proto(m), again = import_model(export_model(model));
  EXPECT_EQ(content_id(again), content_id(model));
  const std::vector<Tensor> exported = run_model(again, {x});
  EXPECT_THAT(exported.at(0).to_doubles(), about(y));
  return y;
}

const Tensor kSquare = floats({1, 1, 2, 2}, {1, 2, 3, 4});

TEST(AdaptResize, UpsampleOfEveryOpset) {
  const Doubles doubled = {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4};
  onnx::ModelProto one = through("Upsample", 1, {1, 1, 2, 2});
  set_float(only_node(one), "height_scale", 2);
  set_float(only_node(one), "width_scale", 2);
  EXPECT_EQ(both_ways(one, kSquare), doubled);
  onnx::ModelProto seven = through("Upsample", 7, {1, 1, 2, 2});
  for (const float s : {1, 1, 2, 2}) {
    if (only_node(seven).attribute_size() == 0) {
      onnx::AttributeProto& a = *only_node(seven).add_attribute();
      a.set_name("scales");
      a.set_type(onnx::AttributeProto::FLOATS);
    }
    only_node(seven).mutable_attribute(0)->add_floats(s);
  }
  EXPECT_EQ(both_ways(seven, kSquare), doubled);
  onnx::ModelProto nine = through("Upsample", 9, {1, 1, 2, 2}, {"s"});
  add_floats(nine, "s", {4}, {1, 1, 2, 2});
  EXPECT_EQ(both_ways(nine, kSquare), doubled);
  EXPECT_THAT(refusal(through("Upsample", 9, {1, 1, 2, 2})), HasSubstr("has no scales"));
}

// Up to opset 10 a place lay where it is multiplied to; since then it is the place's centre.
TEST(AdaptResize, Opset10IsAsymmetric) {
  const auto widened = [](int64_t opset, const Names& more) {
    onnx::ModelProto m = through("Resize", opset, {1, 1, 1, 2}, more);
    add_floats(m, "s", {4}, {1, 1, 1, 2});
    set_string(only_node(m), "mode", "linear");
    return both_ways(m, floats({1, 1, 1, 2}, {0, 4}));
  };
  EXPECT_THAT(widened(10, {"s"}), about({0, 2, 4, 4}));
  EXPECT_THAT(widened(13, {"", "s"}), about({0, 1, 3, 4}));
}

TEST(AdaptResize, ExportSaysWhatOpset17DoesNotHave) {
  onnx::ModelProto m = through("Resize", 19, {1, 1, 4, 4}, {"", "", "z"});
  add_ints(m, "z", {2}, {2, 2});
  set_ints(only_node(m), "axes", {2, 3});
  const Model model = import_proto(m);
  try {
    export_model(model, {.opset = 17});
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("opset 17 has no attribute axes; --opset 18 has it"));
  }
}

// A group of one channel is normalised to -1 and 1 (near enough); scale and bias were of groups.
TEST(AdaptNorm, GroupNormalizationOfBothForms) {
  const Tensor x = floats({1, 2, 1, 2}, {1, 3, 10, 30});
  for (const int64_t opset : {18, 21}) {
    onnx::ModelProto m = through("GroupNormalization", opset, {1, 2, 1, 2}, {"s", "b"});
    add_floats(m, "s", {2}, {2, 3});
    add_floats(m, "b", {2}, {0, 1});
    set_int(only_node(m), "num_groups", 2);
    set_float(only_node(m), "epsilon", 1e-9f);
    EXPECT_THAT(both_ways(m, x), about({-2, 2, -2, 4})) << opset;
  }
  onnx::ModelProto bad = through("GroupNormalization", 21, {1, 2, 1, 2}, {"s", "s"});
  add_floats(bad, "s", {2}, {2, 3});
  set_int(only_node(bad), "num_groups", 3);
  EXPECT_THAT(refusal(bad), HasSubstr("num_groups 3 does not divide the channels"));
}

TEST(AdaptNorm, RootMeanSquareAndLength) {
  onnx::ModelProto rms = through("RMSNormalization", 23, {1, 2}, {"s"});
  add_floats(rms, "s", {2}, {1, 2});
  set_float(only_node(rms), "epsilon", 1e-12f);
  const double root = std::sqrt(12.5);
  EXPECT_THAT(both_ways(rms, floats({1, 2}, {3, 4})), about({3 / root, 8 / root}));
  onnx::ModelProto lp = through("LpNormalization", 1, {3, 2});
  EXPECT_THAT(both_ways(lp, floats({3, 2}, {3, 4, 0, 0, -5, 12})),
              about({0.6, 0.8, 0, 0, -5 / 13.0, 12 / 13.0}));
  onnx::ModelProto pool = through("GlobalLpPool", 2, {1, 1, 2, 2});
  set_int(only_node(pool), "p", 3);
  EXPECT_THAT(both_ways(pool, floats({1, 1, 2, 2}, {1, -2, 0, 3})), about({std::cbrt(36.0)}));
}

TEST(AdaptElementwise, FunctionsOfOneNumber) {
  const Tensor x = floats({1, 4}, {-3, -0.5, 0.5, 3});
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  onnx::ModelProto swish = through("Swish", 24, {1, 4});
  set_float(only_node(swish), "alpha", 2);
  EXPECT_THAT(both_ways(swish, x),
              about({-3 * sigmoid(-6), -0.5 * sigmoid(-1), 0.5 * sigmoid(1), 3 * sigmoid(6)}));
  onnx::ModelProto shrink = through("Shrink", 9, {1, 4});
  set_float(only_node(shrink), "lambd", 1);
  set_float(only_node(shrink), "bias", 1);
  EXPECT_THAT(both_ways(shrink, x), about({-2, 0, 0, 2}));
  EXPECT_THAT(both_ways(through("Hardmax", 13, {2, 2}), floats({2, 2}, {1, 3, 5, 5})),
              about({0, 1, 1, 0}));
  // Up to opset 12 all behind the axis was one distribution.
  EXPECT_THAT(both_ways(through("Hardmax", 11, {1, 2, 2}), floats({1, 2, 2}, {1, 3, 5, 5})),
              about({0, 0, 1, 0}));
}

// At every batch, though it was read at one.
TEST(AdaptElementwise, TheBatchMayBeTheAxis) {
  onnx::ModelProto hard = through("Hardmax", 13, {-1, 2});
  set_int(only_node(hard), "axis", 0);
  EXPECT_EQ(run_floats(hard, {floats({1, 2}, {3, 4})}), (Doubles{1, 1}));
  EXPECT_EQ(run_floats(hard, {floats({3, 2}, {3, 4, 5, 4, 1, 9})}), (Doubles{0, 0, 1, 0, 0, 1}));
  onnx::ModelProto sum = through("Einsum", 13, {-1, 2}, {"w"});
  add_floats(sum, "w", {2, 1, 1}, {1, 2});
  set_string(only_node(sum), "equation", "nc,cii->ni");
  EXPECT_EQ(run_floats(sum, {floats({1, 2}, {3, 4})}), (Doubles{11}));
  EXPECT_EQ(run_floats(sum, {floats({3, 2}, {3, 4, 0, 1, 1, 0})}), (Doubles{11, 2, 1}));
}

TEST(AdaptElementwise, WhereIsInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor x = floats({1, 3}, {-infinity, 1, infinity});
  const auto found = [&](int64_t below, int64_t above) {
    onnx::ModelProto m = through("IsInf", 10, {1, 3});
    set_int(only_node(m), "detect_negative", below);
    set_int(only_node(m), "detect_positive", above);
    return both_ways(m, x);
  };
  EXPECT_EQ(found(1, 1), (Doubles{1, 0, 1}));
  EXPECT_EQ(found(1, 0), (Doubles{1, 0, 0}));
  EXPECT_EQ(found(0, 1), (Doubles{0, 0, 1}));
  EXPECT_EQ(found(0, 0), (Doubles{0, 0, 0}));
}

TEST(AdaptLoss, WeighsClassesAndLeavesOutWhatIsIgnored) {
  const auto loss = [](const char* reduction, bool ignores) {
    onnx::ModelProto m = through("NegativeLogLikelihoodLoss", 13, {3, 2}, {"t", "w"});
    add_ints(m, "t", {3}, {0, 1, 1});
    add_floats(m, "w", {2}, {1, 2});
    set_string(only_node(m), "reduction", reduction);
    if (ignores) set_int(only_node(m), "ignore_index", 0);
    return both_ways(m, floats({3, 2}, {-1, -2, -3, -4, -5, -6}));
  };
  EXPECT_THAT(loss("none", false), about({1, 8, 12}));
  EXPECT_THAT(loss("none", true), about({0, 8, 12}));
  EXPECT_THAT(loss("sum", false), about({21}));
  EXPECT_THAT(loss("mean", false), about({21.0 / 5}));
  EXPECT_THAT(loss("mean", true), about({5}));
}

TEST(AdaptLoss, CrossEntropyGivesItsLogProbabilitiesToo) {
  onnx::ModelProto m = empty_model(13);
  add_input(m, "x", {1, 2});
  add_ints(m, "t", {1}, {1});
  add_node(m, "SoftmaxCrossEntropyLoss", {"x", "t"}, {"y", "p"});
  add_output(m, "y");
  add_output(m, "p");
  const std::vector<Tensor> y = run_model(import_proto(m), {floats({1, 2}, {0, std::log(3.f)})});
  EXPECT_THAT(y.at(0).to_doubles(), about({std::log(4 / 3.0)}));
  EXPECT_THAT(y.at(1).to_doubles(), about({-std::log(4.0), std::log(0.75)}));
}

TEST(AdaptCrop, CutsTheMiddleOrSurroundsIt) {
  onnx::ModelProto m = through("CenterCropPad", 18, {1, 5}, {"z"});
  add_ints(m, "z", {2}, {2, 2});
  EXPECT_EQ(run_floats(m, {floats({1, 5}, {1, 2, 3, 4, 5})}), (Doubles{2, 3, 0, 0}));
  onnx::ModelProto wide = through("CenterCropPad", 18, {1, 2}, {"z"});
  add_ints(wide, "z", {1}, {5});
  set_ints(only_node(wide), "axes", {-1});
  EXPECT_EQ(run_floats(wide, {floats({1, 2}, {1, 2})}), (Doubles{0, 1, 2, 0, 0}));
}

// A quarter turn of (1, 2): (-2, 1); what is not turned stays.
TEST(AdaptRotary, TurnsPairs) {
  onnx::ModelProto m = through("RotaryEmbedding", 23, {1, 1, 3}, {"c", "s"});
  add_floats(m, "c", {1, 1, 1}, {0});
  add_floats(m, "s", {1, 1, 1}, {1});
  set_int(only_node(m), "num_heads", 1);
  set_int(only_node(m), "rotary_embedding_dim", 2);
  EXPECT_THAT(both_ways(m, floats({1, 1, 3}, {1, 2, 7})), about({-2, 1, 7}));
}

TEST(AdaptVision, NamesThatChanged) {
  onnx::ModelProto sample = through("GridSample", 16, {1, 1, 1, 2}, {"g"});
  add_floats(sample, "g", {1, 1, 1, 2}, {0, 0});
  set_string(only_node(sample), "mode", "bilinear");
  EXPECT_THAT(both_ways(sample, floats({1, 1, 1, 2}, {1, 3})), about({2}));
  onnx::ModelProto scatter = through("Scatter", 9, {1, 2}, {"i", "u"});
  add_ints(scatter, "i", {1, 2}, {0, 0});
  add_floats(scatter, "u", {1, 2}, {8, 9});
  EXPECT_EQ(both_ways(scatter, floats({1, 2}, {1, 2})), (Doubles{8, 9}));
  onnx::ModelProto top = empty_model(9);
  add_input(top, "x", {1, 3});
  set_int(add_node(top, "TopK", {"x"}, {"y", "i"}), "k", 2);
  add_output(top, "y");
  EXPECT_EQ(run_floats(top, {floats({1, 3}, {1, 3, 2})}), (Doubles{3, 2}));
  onnx::ModelProto roi = through("RoiAlign", 10, {1, 1, 2, 2}, {"r", "b"});
  add_floats(roi, "r", {1, 4}, {0, 0, 1, 1});
  add_ints(roi, "b", {1}, {0});
  EXPECT_THAT(both_ways(roi, kSquare), about({2.5}));
}

TEST(AdaptVision, TooFewInputsAreRefused) {
  for (const char* op :
       {"GroupNormalization", "RMSNormalization", "SoftmaxCrossEntropyLoss",
        "NegativeLogLikelihoodLoss", "SwiGLU", "CenterCropPad", "RotaryEmbedding"}) {
    EXPECT_THAT(refusal(one_node(op, 28)), HasSubstr(op)) << op;
  }
  for (const char* op : {"Upsample", "Resize", "Hardmax", "LpNormalization", "Einsum", "Swish"}) {
    onnx::ModelProto m = one_node(op, 9);
    only_node(m).clear_input();
    EXPECT_THAT(refusal(m), HasSubstr(op)) << op;
  }
}

TEST(AdaptVision, ACellTakesTheFunctionsThatItHasAnyway) {
  for (const char* function : {"Tanh", "Relu"}) {
    onnx::ModelProto m = through("RNN", 22, {2, 1, 1}, {"w", "w"});
    add_floats(m, "w", {1, 1, 1}, {0});
    onnx::AttributeProto& a = *node_of(m).add_attribute();
    a.set_name("activations");
    a.set_type(onnx::AttributeProto::STRINGS);
    a.add_strings(function);
    EXPECT_EQ(refusal(m).find("activation Relu is not supported, only Tanh") != std::string::npos,
              function == std::string("Relu"));
  }
}

TEST(AdaptVision, WhatDependsOnDataIsRefusedWithTheRemedy) {
  for (const char* op : {"NonMaxSuppression", "Unique"}) {
    EXPECT_THAT(refusal(one_node(op, 11)),
                ::testing::AllOf(HasSubstr(op), HasSubstr("depends on the data"),
                                 HasSubstr("end the model before it")));
  }
}

}  // namespace
}  // namespace ndtrain
