#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/graph/precision.h"
#include "framework/passes/inference.h"
#include "framework/passes/passes.h"
#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using testing::count_nodes;
using testing::interpret_named;
using testing::largest_difference;
using testing::named_inputs;
using testing::random_network;
using testing::random_tensor;

class LowerFloats : public ::testing::Test {
 protected:
  ValueId conv(ValueId from, int64_t out = 4) {
    const std::string name = "w" + std::to_string(weights_++);
    const int64_t in = g.shape(from)[1];
    return g.add1("Conv",
                  {from, g.add_param(name, random_tensor({DType::kF32, {out, in, 3, 3}}, 1, name)),
                   g.add_param(name + "b", random_tensor({DType::kF32, {out}}, 1, name))},
                  {{"pads", Ints{1, 1, 1, 1}}});
  }
  // Lowers all of the graph and checks that its ends keep their types and about their numbers.
  Graph lowered() {
    const Graph r = lower_floats(g, DType::kBF16, g.outputs());
    for (size_t k = 0; k < g.outputs().size(); ++k) {
      EXPECT_EQ(r.type(r.outputs()[k]), g.type(g.outputs()[k]));
      EXPECT_EQ(r.value(r.outputs()[k]).name, g.value(g.outputs()[k]).name);
    }
    const auto given = named_inputs(g, 1);
    EXPECT_LE(largest_difference(interpret_named(r, given), interpret_named(g, given)), 0.1);
    return r;
  }
  static DType dtype(const Graph& r, std::string_view op) {
    for (const Node& n : r.nodes()) {
      if (n.op == op) return r.type(n.outputs[0]).dtype;
    }
    return DType::kNone;
  }
  Graph g;
  ValueId x = g.add_input("x", {DType::kF32, {2, 4, 6, 6}});

 private:
  int weights_ = 0;
};

TEST_F(LowerFloats, CastsStandAtTheEndsOnly) {
  const ValueId a = g.add1("Relu", {conv(x)});
  const ValueId b = g.add1("MaxPool", {g.add1("Concat", {a, conv(a)}, {{"axis", int64_t{1}}})},
                           {{"kernel_shape", Ints{2, 2}}});
  g.mark_output(g.add1("Add", {conv(b), conv(b)}));
  g.mark_output(conv(b));
  const Graph r = lowered();
  EXPECT_EQ(count_nodes(r, "Cast"), 3);
  for (const char* op : {"Conv", "Relu", "Concat", "MaxPool", "Add"}) {
    EXPECT_EQ(dtype(r, op), DType::kBF16) << op;
  }
}

TEST_F(LowerFloats, WeightsAreConvertedAndBiasesAreNot) {
  g.mark_output(conv(x));
  const Graph r = lowered();
  ASSERT_EQ(r.params().size(), 2U);
  EXPECT_EQ(r.type(r.params()[0]).dtype, DType::kBF16);
  EXPECT_EQ(r.type(r.params()[1]).dtype, DType::kF32);
}

TEST_F(LowerFloats, WhatLosesDigitsStaysF32WithOneCastPerValue) {
  const ValueId a = conv(x);
  const ValueId sine = g.add1("Sin", {a}), cosine = g.add1("Cos", {a});
  // A sum of what stayed f32 stays too; the next product goes on in bf16.
  const ValueId sum = g.add1("Add", {sine, cosine});
  g.mark_output(conv(g.add1("Add", {g.add1("Relu", {sum}), a})));
  const Graph r = lowered();
  EXPECT_EQ(dtype(r, "Sin"), DType::kF32);
  EXPECT_EQ(dtype(r, "Add"), DType::kF32);
  EXPECT_EQ(dtype(r, "Relu"), DType::kF32);
  EXPECT_EQ(count_nodes(r, "Cast"), 4);  // x; a once, for three readers; the sum; the output
}

TEST_F(LowerFloats, WhatPreparesTheInputStaysF32) {
  const ValueId mean = g.add_constant("mean", Tensor::of<float>(DType::kF32, {}, {0.3F}));
  g.mark_output(conv(g.add1("Sub", {x, mean})));
  EXPECT_EQ(dtype(lowered(), "Sub"), DType::kF32);
}

TEST_F(LowerFloats, TheLastSmallLayerStaysF32) {
  ValueId a = x;
  for (int i = 0; i < 3; ++i) a = g.add1("Relu", {conv(a, 16)});
  const ValueId pooled = g.add1("GlobalAveragePool", {a});
  const ValueId flat = g.add1("Flatten", {pooled});
  const ValueId w = g.add_param("fc", random_tensor({DType::kF32, {3, 16}}, 1, "fc"));
  g.mark_output(g.add1("Gemm", {flat, w}, {{"transB", int64_t{1}}}));
  const Graph r = lowered();
  EXPECT_EQ(dtype(r, "Gemm"), DType::kF32);
  EXPECT_EQ(dtype(r, "GlobalAveragePool"), DType::kF32);
  EXPECT_EQ(dtype(r, "Conv"), DType::kBF16);
  EXPECT_EQ(count_nodes(r, "Cast"), 2);
}

TEST_F(LowerFloats, IndicesAndOtherDtypesAreLeftAlone) {
  const auto pooled = g.add("MaxPool", {conv(x)}, {{"kernel_shape", Ints{2, 2}}}, 2);
  g.mark_output(pooled[1]);
  g.mark_output(g.add1("Cast", {conv(pooled[0])}, {{"to", static_cast<int64_t>(DType::kF16)}}));
  const Graph r = lower_floats(g, DType::kBF16, g.outputs());
  EXPECT_EQ(r.type(r.outputs()[0]).dtype, DType::kI64);
  EXPECT_EQ(r.type(r.outputs()[1]).dtype, DType::kF16);
  EXPECT_EQ(dtype(r, "MaxPool"), DType::kBF16);
}

TEST_F(LowerFloats, RandomNetworksKeepTheirOutputs) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Graph n = optimize_for_inference(random_network(seed, 18));
    const auto given = named_inputs(n, seed);
    for (const auto& [narrow, allowed] : {std::pair(DType::kBF16, 0.1), {DType::kF16, 0.02}}) {
      const Graph r = lower_floats(n, narrow, n.outputs());
      EXPECT_LE(largest_difference(interpret_named(r, given), interpret_named(n, given)), allowed)
          << "seed " << seed << " in " << name_of(narrow);
    }
  }
}

TEST_F(LowerFloats, OnlySixteenBitsAreLower) {
  g.mark_output(conv(x));
  EXPECT_THAT(testing::error_of([&] { lower_floats(g, DType::kF64, g.outputs()); }),
              ::testing::HasSubstr("f64"));
}

// A model in two halves computes what it computes as a whole.
TEST(InferencePrecision, EndsAtTheFeatures) {
  Model m = testing::flattening_model();
  const std::vector<std::string> features = {"h"};
  declare_precision(m, Precision::kBF16, features);
  const Model first = extract(m, std::vector<std::string>{"x"}, features);
  const Model second = extract(m, features, m.outputs);
  const Graph whole = inference_graph(m, 2), front = inference_graph(first, 2),
              behind = inference_graph(second, 2);
  EXPECT_EQ(count_nodes(whole, "Cast"), 2);
  EXPECT_EQ(count_nodes(front, "Cast"), 2);
  EXPECT_EQ(count_nodes(behind, "Cast"), 0);
  const auto given = named_inputs(whole, 1);
  auto h = interpret_named(front, given);
  EXPECT_EQ(interpret_named(behind, {{"h", h[0]}}), interpret_named(whole, given));
}

TEST(InferencePrecision, IsDeclaredInTheMetadata) {
  Model m = testing::flattening_model();
  EXPECT_EQ(declared_precision(m), Precision::kF32);
  declare_precision(m, Precision::kBF16);
  EXPECT_EQ(m.metadata.at("ndtrain.precision"), "bf16");
  EXPECT_EQ(declared_precision(m), Precision::kBF16);
  EXPECT_EQ(count_nodes(inference_graph(m, 1), "Cast"), 2);
  declare_precision(m, Precision::kF16);
  EXPECT_NE(inference_graph(m, 1).find("h@f16"), kNone);
  declare_precision(m, Precision::kF32);
  EXPECT_TRUE(m.metadata.empty());
  m.metadata["ndtrain.precision"] = "f8";
  EXPECT_THAT(testing::error_of([&] { inference_graph(m, 1); }), ::testing::HasSubstr("'f8'"));
  declare_precision(m, Precision::kBF16, std::vector<std::string>{"gone"});
  EXPECT_THAT(testing::error_of([&] { inference_graph(m, 1); }), ::testing::HasSubstr("'gone'"));
}

}  // namespace
}  // namespace ndtrain
