// Forms of older opsets, and of ONNX Runtime's own domain, by what they compute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/onnx/export.h"
#include "tests/onnx/model_proto.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;
using Doubles = std::vector<double>;

onnx::NodeProto& node_of(onnx::ModelProto& m) { return *m.mutable_graph()->mutable_node(0); }

const Tensor kX = floats({2, 3}, {-1, 0, 1, 2, 3, 4});

TEST(Adapt, BroadcastAlongAnAxisInOpset6) {
  onnx::ModelProto m = empty_model(6);
  add_input(m, "x", {2, 3, 2});
  add_floats(m, "b", {3}, {10, 20, 30});
  onnx::NodeProto& n = add_node(m, "Add", {"x", "b"}, {"y"});
  set_int(n, "broadcast", 1);
  set_int(n, "axis", 1);
  add_output(m, "y");
  const Model model = import_proto(m);
  EXPECT_EQ(content_id(import_model(export_model(model))), content_id(model));
  const Tensor x({DType::kF32, Shape{2, 3, 2}});
  EXPECT_EQ(run_floats(m, {x}), (Doubles{10, 10, 20, 20, 30, 30, 10, 10, 20, 20, 30, 30}));
}

TEST(Adapt, BroadcastOfTheFirstDimensionsInOpset6) {
  onnx::ModelProto m = empty_model(6);
  add_input(m, "x", {2, 3});
  add_floats(m, "b", {2}, {10, 20});
  onnx::NodeProto& n = add_node(m, "Mul", {"x", "b"}, {"y"});
  set_int(n, "broadcast", 1);
  set_int(n, "axis", 0);
  add_output(m, "y");
  EXPECT_EQ(run_floats(m, {kX}), (Doubles{-10, 0, 10, 40, 60, 80}));
}

TEST(Adapt, SlopesOfPReluBelongToChannelsInOpset6) {
  onnx::ModelProto m = empty_model(6);
  add_input(m, "x", {1, 2, 2});
  add_floats(m, "slope", {2}, {10, 100});
  add_node(m, "PRelu", {"x", "slope"}, {"y"});
  add_output(m, "y");
  EXPECT_EQ(run_floats(m, {floats({1, 2, 2}, {-1, 2, -3, -4})}), (Doubles{-10, 2, -300, -400}));
}

// Up to opset 12 everything from axis on is one distribution.
TEST(Adapt, SoftmaxOfOpset11SumsToOneOverAllFurtherAxes) {
  for (const auto& [opset, parts] : {std::pair(11, 2), {13, 4}}) {
    onnx::ModelProto m = empty_model(opset);
    add_input(m, "x", {2, 2, 2});
    set_int(add_node(m, "Softmax", {"x"}, {"y"}), "axis", 1);
    add_output(m, "y");
    const Doubles y = run_floats(m, {floats({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})});
    double sum = 0;
    for (double v : y) sum += v;
    EXPECT_NEAR(sum, parts, 1e-6) << "opset " << opset;
  }
}

TEST(Adapt, SoftmaxOfOpset11OverTheLastAxisStaysOneNode) {
  EXPECT_EQ(import_proto(one_node("Softmax", 11)).nodes.size(), 1u);
}

TEST(Adapt, EinsumOfTwoMatricesIsAProduct) {
  const auto product = [](const char* equation, const std::vector<int64_t>& b) {
    onnx::ModelProto m = empty_model(13);
    add_input(m, "x", {2, 3});
    add_floats(m, "b", b, {1, 2, 3, 4, 5, 6});
    set_string(add_node(m, "Einsum", {"x", "b"}, {"y"}), "equation", equation);
    add_output(m, "y");
    return run_floats(m, {kX});
  };
  EXPECT_EQ(product("ij,jk->ik", {3, 2}), (Doubles{4, 4, 31, 40}));
  EXPECT_EQ(product("I J, K J -> I K", {2, 3}), (Doubles{2, 2, 20, 47}));
  EXPECT_EQ(product("ij,jk->ki", {3, 2}), (Doubles{4, 31, 4, 40}));
  EXPECT_EQ(product("ij,ik->jk", {2, 3}), (Doubles{7, 8, 9, 12, 15, 18, 17, 22, 27}));
}

TEST(Adapt, EinsumOverCommonIndicesIsAProductForEach) {
  onnx::ModelProto m = empty_model(13);
  add_input(m, "x", {2, 1, 3});
  add_floats(m, "b", {2, 3, 1}, {1, 2, 3, 4, 5, 6});
  set_string(add_node(m, "Einsum", {"x", "b"}, {"y"}), "equation", "bij,bjk->kbi");
  add_output(m, "y");
  EXPECT_EQ(run_floats(m, {floats({2, 1, 3}, {-1, 0, 1, 2, 3, 4})}), (Doubles{2, 47}));
}

Doubles einsum(const char* equation, const Names& inputs) {
  onnx::ModelProto m = empty_model(13);
  add_input(m, "x", {2, 3});
  add_floats(m, "b", {3, 2}, {1, 2, 3, 4, 5, 6});
  add_floats(m, "s", {2, 2}, {1, 2, 3, 4});
  add_floats(m, "t", {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  set_string(add_node(m, "Einsum", inputs, {"y"}), "equation", equation);
  add_output(m, "y");
  return run_floats(m, {kX});
}

TEST(Adapt, AnyEinsumIsProductsAndSums) {
  EXPECT_EQ(einsum("ij->ji", {"x"}), (Doubles{-1, 2, 0, 3, 1, 4}));
  EXPECT_EQ(einsum("ij->", {"x"}), (Doubles{9}));
  EXPECT_EQ(einsum("ij", {"x"}), (Doubles{-1, 0, 1, 2, 3, 4}));
  EXPECT_EQ(einsum("ij->i", {"x"}), (Doubles{0, 9}));
  EXPECT_EQ(einsum("ii->i",
                   {
                       "s",
                   }),
            (Doubles{1, 4}));
  EXPECT_EQ(einsum("ii", {"s"}), (Doubles{5}));
  EXPECT_EQ(einsum("...ii->...i", {"t"}), (Doubles{1, 4, 5, 8}));
  EXPECT_EQ(einsum("ij,ij->i", {"x", "x"}), (Doubles{2, 29}));
  EXPECT_EQ(einsum("ij,ij", {"x", "x"}), (Doubles{31}));
  EXPECT_EQ(einsum("ij,jk,kl->il", {"x", "b", "s"}), (Doubles{16, 24, 151, 222}));
  EXPECT_EQ(einsum("bij,bkl->bikjl", {"t", "t"}).size(), 32U);
  EXPECT_EQ(einsum("...ij,jk->...ik", {"t", "s"}), (Doubles{7, 10, 15, 22, 23, 34, 31, 46}));
  // Two letters for the rows and two that are summed.
  EXPECT_EQ(einsum("abc,bcd->ad", {"t", "t"}), (Doubles{50, 60, 114, 140}));
}

TEST(Adapt, EinsumsThatMeanNothingAreRefusedWithTheirEquation) {
  for (const auto& [equation, why] : {std::pair("ijk->i", "does not fit operand 0 of rank 2"),
                                      {"ij->ii", "names 'i' twice"},
                                      {"ij->ik", "no operand's dim"},
                                      {"ij,jk->ik", "names more operands than the node has"},
                                      {"i-", "no letter"}}) {
    onnx::ModelProto m = one_node("Einsum", 13);
    set_string(node_of(m), "equation", equation);
    EXPECT_THAT(refusal(m), ::testing::AllOf(HasSubstr(equation), HasSubstr(why)));
  }
}

TEST(Adapt, AttributesThatBecameInputs) {
  onnx::ModelProto m = empty_model(9);
  add_input(m, "x", {2, 3});
  set_ints(add_node(m, "Unsqueeze", {"x"}, {"u"}), "axes", {0});
  set_ints(add_node(m, "Squeeze", {"u"}, {"s"}), "axes", {0});
  onnx::NodeProto& pad = add_node(m, "Pad", {"s"}, {"p"});
  set_ints(pad, "pads", {0, 1, 0, 0});
  set_float(pad, "value", 7);
  onnx::NodeProto& slice = add_node(m, "Slice", {"p"}, {"l"});
  set_ints(slice, "axes", {1});
  set_ints(slice, "starts", {0});
  set_ints(slice, "ends", {3});
  onnx::NodeProto& clip = add_node(m, "Clip", {"l"}, {"c"});
  set_float(clip, "min", 0);
  set_float(clip, "max", 5);
  onnx::NodeProto& split = add_node(m, "Split", {"c"}, {"first", "rest"});
  set_int(split, "axis", 1);
  set_ints(split, "split", {1, 2});
  onnx::NodeProto& sum = add_node(m, "ReduceSum", {"rest"}, {"y"});
  set_ints(sum, "axes", {1});
  set_int(sum, "keepdims", 0);
  add_output(m, "y");
  add_output(m, "first");
  const auto out = run_model(import_proto(m), {kX});
  EXPECT_EQ(out.at(0).to_doubles(), (Doubles{0, 5}));
  EXPECT_EQ(out.at(1).to_doubles(), (Doubles{5, 5}));
}

TEST(Adapt, FormsOfOpset1) {
  onnx::ModelProto m = empty_model(1);
  add_input(m, "x", {2, 3});
  onnx::NodeProto& pad = add_node(m, "Pad", {"x"}, {"p"});
  set_ints(pad, "paddings", {0, 0, 0, 1});
  set_ints(add_node(m, "Reshape", {"p"}, {"r"}), "shape", {4, 2});
  set_string(add_node(m, "Cast", {"r"}, {"i"}), "to", "INT32");
  set_string(add_node(m, "Cast", {"i"}, {"f"}), "to", "FLOAT");
  onnx::NodeProto& relu = add_node(m, "Relu", {"f"}, {"a"});
  set_ints(relu, "consumed_inputs", {0});
  add_node(m, "Concat", {"a", "f"}, {"y"});  // axis 1 by default
  add_output(m, "y");
  EXPECT_EQ(run_floats(m, {kX}), (Doubles{0, 0, -1, 0, 1, 0, 1, 0, 2, 3, 2, 3, 4, 0, 4, 0}));
}

TEST(Adapt, BatchNormalizationOfOldOpsets) {
  for (const int opset : {5, 6, 7, 8, 9, 13, 14, 15, 17}) {
    onnx::ModelProto m = empty_model(opset);
    add_input(m, "x", {2, 3});
    add_floats(m, "scale", {3}, {2, 2, 2});
    add_floats(m, "bias", {3}, {1, 1, 1});
    add_floats(m, "mean", {3}, {1, 1, 1});
    add_floats(m, "var", {3}, {4, 4, 4});
    onnx::NodeProto& n =
        add_node(m, "BatchNormalization", {"x", "scale", "bias", "mean", "var"}, {"y"});
    set_float(n, "epsilon", 0);
    if (opset < 7) set_int(n, "is_test", 1);
    if (opset < 9) set_int(n, "spatial", 1);
    add_output(m, "y");
    EXPECT_EQ(run_floats(m, {kX}), (Doubles{-1, 0, 1, 2, 3, 4})) << "opset " << opset;
    if (opset < 9) {
      n.mutable_attribute(n.attribute_size() - 1)->set_i(0);
      EXPECT_THAT(refusal(m), HasSubstr("spatial"));
    }
  }
}

TEST(Adapt, DropoutOfOldOpsetsIsTheIdentityAndKeepsItsRatio) {
  for (const int opset : {1, 6, 7, 10, 12, 13}) {
    onnx::ModelProto m = one_node("Dropout", opset);
    if (opset < 12) set_float(node_of(m), "ratio", 0.25f);
    if (opset < 7) set_int(node_of(m), "is_test", 1);
    node_of(m).add_output("unused_mask");
    EXPECT_EQ(run_floats(m, {kX}), kX.to_doubles());
    const Model model = import_proto(m);
    EXPECT_EQ(model.nodes.back().outputs.size(), 1u);
    if (opset < 12) {
      EXPECT_EQ(model.nodes.back().inputs.size(), 2u);
    }
  }
}

// What opsets 24 to 28 added to operators that a model has is types, and attributes at their
// defaults.
TEST(Adapt, OpsetsUpTo28MeanWhatOpset23Means) {
  for (int opset = 23; opset <= 28; ++opset) {
    onnx::ModelProto m = empty_model(opset, 10);
    add_input(m, "x", {-1, 4, 2, 2});
    onnx::NodeProto& depth = add_node(m, "SpaceToDepth", {"x"}, {"d"});
    set_int(depth, "blocksize", 2);
    if (opset >= 28) set_string(depth, "mode", "DCR");
    set_ints(add_node(m, "Transpose", {"d"}, {"t"}), "perm", {0, 2, 3, 1});
    add_ints(m, "shape", {2}, {0, -1});
    add_node(m, "Reshape", {"t", "shape"}, {"r"});
    onnx::NodeProto& cast = add_node(m, "Cast", {"r"}, {"c"});
    set_int(cast, "to", onnx::TensorProto::DOUBLE);
    if (opset >= 24) set_string(cast, "round_mode", "up");
    for (const auto& [name, value] : {std::pair("from", 0), {"to", 16}, {"by", 1}}) {
      add_ints(m, name, {}, {value});
    }
    onnx::NodeProto& range = add_node(m, "Range", {"from", "to", "by"}, {"i"});
    if (opset >= 27) set_int(range, "stash_type", 1);
    add_node(m, "CastLike", {"i", "c"}, {"f"});
    add_node(m, "Add", {"c", "f"}, {"y"});
    add_output(m, "y");
    const Tensor x({DType::kF32, Shape{1, 4, 2, 2}});
    Doubles want;
    for (int i = 0; i < 16; ++i) want.push_back(i);
    EXPECT_EQ(run_floats(m, {x}), want) << "opset " << opset;
  }
}

TEST(Adapt, WhatNewerFormsSayMoreIsRefusedByName) {
  onnx::ModelProto depth = empty_model(28, 10);
  add_input(depth, "x", {-1, 4, 2, 2});
  onnx::NodeProto& n = add_node(depth, "SpaceToDepth", {"x"}, {"y"});
  set_int(n, "blocksize", 2);
  set_string(n, "mode", "DRC");
  add_output(depth, "y");
  EXPECT_THAT(refusal(depth), HasSubstr("mode is 'DRC', must be DCR or CRD"));
  EXPECT_THAT(refusal(one_node("Bernoulli", 18)), HasSubstr("operator Bernoulli is not supported"));
}

TEST(Adapt, WhatOldFormsCannotSayIsRefusedByName) {
  EXPECT_THAT(refusal(one_node("Upsample", 9)), HasSubstr("Upsample"));
  EXPECT_THAT(refusal(one_node("Tile", 1)), HasSubstr("Tile of opset 1"));
  onnx::ModelProto cast = one_node("Cast");
  set_int(node_of(cast), "to", onnx::TensorProto::STRING);
  EXPECT_THAT(refusal(cast), HasSubstr("string"));
}

TEST(Adapt, TakesRuntimesOwnOperators) {
  for (const char* op : {"Gelu", "BiasGelu", "FastGelu"}) {
    onnx::ModelProto m = one_node(op);
    node_of(m).set_domain("com.microsoft");
    const bool bias = std::string(op) != "Gelu";
    if (bias) {
      add_floats(m, "b", {3}, {0, 1, 0});
      node_of(m).add_input("b");
    }
    const Doubles y = run_floats(m, {kX});
    EXPECT_NEAR(y[2], 0.8413, 1e-3) << op;
    EXPECT_NEAR(y[1], bias ? 0.8413 : 0, 1e-3) << op;
  }
  onnx::ModelProto unknown = one_node("Inverse");
  node_of(unknown).set_domain("com.microsoft");
  EXPECT_THAT(refusal(unknown), HasSubstr("Inverse of domain com.microsoft"));
}

TEST(Adapt, FusedConvTakesItsActivation) {
  for (const auto& [activation, expected] :
       {std::pair("Relu", 0.0), {"Clip", -2.0}, {"Tanh", std::tanh(-6.0)}, {"LeakyRelu", -3.0}}) {
    onnx::ModelProto m = empty_model();
    add_input(m, "x", {1, 1, 2, 2});
    add_floats(m, "w", {1, 1, 1, 1}, {-3});
    onnx::NodeProto& n = add_node(m, "FusedConv", {"x", "w"}, {"y"});
    n.set_domain("com.microsoft");
    set_string(n, "activation", activation);
    onnx::AttributeProto& a = *n.add_attribute();
    a.set_name("activation_params");
    a.set_type(onnx::AttributeProto::FLOATS);
    if (std::string(activation) == "Clip") a.add_floats(-2), a.add_floats(2);
    if (std::string(activation) == "LeakyRelu") a.add_floats(0.5f);
    add_output(m, "y");
    EXPECT_NEAR(run_floats(m, {floats({1, 1, 2, 2}, {2, 2, 2, 2})})[0], expected, 1e-6)
        << activation;
  }
}

TEST(Adapt, ConstantsAreNoWeightsAndEqualShapesAreShared) {
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {2, 3});
  add_ints(m, "s1", {1}, {-1});
  add_ints(m, "s2", {1}, {-1});
  add_ints(m, "unused", {1}, {5});
  onnx::NodeProto& c = add_node(m, "Constant", {}, {"half"});
  set_float(c, "value_float", 0.5f);
  add_node(m, "Reshape", {"x", "s1"}, {"a"});
  add_node(m, "Reshape", {"a", "s2"}, {"b"});
  add_node(m, "Mul", {"b", "half"}, {"y"});
  add_output(m, "y");
  const Model model = import_proto(m);
  EXPECT_EQ(model.initialisers.size(), 1u);
  EXPECT_TRUE(bind(model, 1).params().empty());
}

}  // namespace
}  // namespace ndtrain
