#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/runtime/interpreter.h"
#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using testing::add_weight;
using ::testing::AllOf;
using testing::count_nodes;
using testing::error_of;
using testing::flattening_model;
using ::testing::HasSubstr;
using testing::random_tensor;

TEST(Bind, TheBatchFillsSymbolicDimensions) {
  for (int64_t batch : {1, 5}) {
    const Graph g = bind(flattening_model(), batch);
    EXPECT_EQ(g.shape(g.inputs()[0]), (Shape{batch, 2, 4, 4}));
    EXPECT_EQ(g.shape(g.outputs()[0]), (Shape{batch, 5}));
    EXPECT_EQ(g.value(g.outputs()[0]).name, "logits");
  }
}

TEST(Bind, ShapeArithmeticIsFoldedAway) {
  const Graph g = bind(flattening_model(), 5);
  EXPECT_EQ(g.nodes().size(), 4U);
  for (const char* op : {"Shape", "Gather", "Unsqueeze", "Concat"}) {
    EXPECT_EQ(count_nodes(g, op), 0) << op;
  }
  for (const Node& n : g.nodes()) {
    if (n.op != "Reshape") continue;
    EXPECT_EQ(g.value(n.inputs[1]).data.to_ints(), (Ints{5, -1}));
  }
}

TEST(Bind, FloatsAreParametersAndIntegersConstants) {
  const Graph g = bind(flattening_model(), 1);
  std::vector<std::string> names;
  for (ValueId v : g.params()) names.push_back(g.value(v).name);
  EXPECT_EQ(names, (std::vector<std::string>{"conv.w", "fc.w", "fc.b"}));
}

TEST(Bind, RowsDoNotDependOnTheBatch) {
  const Graph one = bind(flattening_model(), 1), five = bind(flattening_model(), 5);
  const Tensor x = random_tensor({DType::kF32, {5, 2, 4, 4}}, 1, "x");
  const Tensor all = interpret_outputs(five, std::vector{x})[0];
  for (size_t row = 0; row < 5; ++row) {
    std::vector<float> values(x.as<float>().begin() + static_cast<std::ptrdiff_t>(row * 32),
                              x.as<float>().begin() + static_cast<std::ptrdiff_t>(row * 32 + 32));
    const Tensor input = Tensor::of(DType::kF32, {1, 2, 4, 4}, values);
    const Tensor alone = interpret_outputs(one, std::vector{input})[0];
    for (size_t c = 0; c < 5; ++c) EXPECT_EQ(alone.as<float>()[c], all.as<float>()[row * 5 + c]);
  }
}

TEST(Bind, AValueFromNowhereIsNamedWithItsNode) {
  Model m = flattening_model();
  m.nodes[1].inputs[0] = "missing";
  EXPECT_THAT(error_of([&] { bind(m, 1); }), AllOf(HasSubstr("'h'"), HasSubstr("'missing'")));
}

TEST(Bind, ANodeThatDoesNotFitIsNamed) {
  Model m = flattening_model();
  add_weight(m, "fc.w", {5, 13});
  EXPECT_THAT(error_of([&] { bind(m, 2); }), AllOf(HasSubstr("'logits'"), HasSubstr("Gemm")));
  m = flattening_model();
  m.nodes[1].op = "Rleu";
  EXPECT_THAT(error_of([&] { bind(m, 2); }), AllOf(HasSubstr("'h'"), HasSubstr("Rleu")));
}

TEST(Bind, AnEmptyBatchIsRefused) {
  EXPECT_THAT(error_of([] { bind(flattening_model(), 0); }), HasSubstr("not 0"));
}

// x is reshaped to what the second input says.
Model reshaping_model() {
  Model m;
  m.inputs = {{"x", DType::kF32, {2, 6}}, {"shape", DType::kI64, {2}}};
  m.outputs = {"y"};
  m.nodes = {{"Identity", {"shape"}, {"s"}, {}}, {"Reshape", {"x", "s"}, {"y"}, {}}};
  return m;
}

TEST(Bind, KnownInputsDecideShapes) {
  const Model m = reshaping_model();
  EXPECT_EQ(shape_inputs(m), (std::vector<std::string>{"shape"}));
  const Graph g = bind(m, 1, {{"shape", Tensor::i64({4, 3})}});
  ASSERT_EQ(g.inputs().size(), 1U);
  EXPECT_EQ(g.shape(g.outputs()[0]), (Shape{4, 3}));
  EXPECT_THAT(error_of([&] { bind(m, 1); }), AllOf(HasSubstr("'y'"), HasSubstr("known")));
  EXPECT_THAT(error_of([&] {
                bind(m, 1, {{"shape", Tensor::i64({4, 3, 1})}});
              }),
              AllOf(HasSubstr("'shape'"), HasSubstr("i64[3]")));
}

TEST(Bind, ShapesOfInputsDoNotMakeTheirValuesKnown) {
  EXPECT_TRUE(shape_inputs(flattening_model()).empty());
  Model m;  // Expand to the shape of y
  m.inputs = {{"x", DType::kF32, {1, 3}}, {"y", DType::kF32, {4, 3}}};
  m.outputs = {"z"};
  m.nodes = {{"Shape", {"y"}, {"s"}, {}}, {"Expand", {"x", "s"}, {"z"}, {}}};
  EXPECT_TRUE(shape_inputs(m).empty());
  EXPECT_EQ(bind(m, 1).shape(bind(m, 1).outputs()[0]), (Shape{4, 3}));
}

// The value keeps its name, and the model its node.
TEST(Bind, LeavesWhatAnOpIsComposedOf) {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 2, 3}}};
  m.initialisers = {{"w", Tensor::of<float>(DType::kF32, {2, 1, 2}, {1, 2, 3, 4})},
                    {"scales", Tensor::of<float>(DType::kF32, {3}, {1, 1, 1})}};
  m.outputs = {"y", "x again"};
  m.nodes = {{"ConvTranspose", {"x", "w"}, {"y"}, {}},
             {"Resize", {"x", "", "scales"}, {"x again"}, {}}};
  for (const int64_t batch : {1, 3}) {
    const Graph g = bind(m, batch);
    ASSERT_EQ(g.nodes().size(), 2u);
    EXPECT_EQ(g.nodes()[0].op, "ConvGradInput");
    EXPECT_EQ(g.nodes()[1].op, "Identity");  // of the same size: nothing is made for it alone
    EXPECT_EQ(g.value(g.outputs()[0]).name, "y");
    EXPECT_EQ(g.shape(g.outputs()[0]), (Shape{batch, 1, 4}));
    EXPECT_EQ(g.value(g.outputs()[1]).name, "x again");
    EXPECT_EQ(g.value(g.inputs()[0]).name, "x");
    ASSERT_EQ(g.params().size(), 1u) << "scales are no weights";
    EXPECT_EQ(g.value(g.params()[0]).name, "w");
  }
}

TEST(Bind, ShapeArithmeticAloneMayUseReferenceOnlyOps) {
  Model m;
  m.inputs = {{"x", DType::kF32, {2, 2}}};
  m.outputs = {"y"};
  m.nodes = {{"NonZero", {"x"}, {"y"}, {}}};
  EXPECT_THAT(error_of([&] { bind(m, 1); }), AllOf(HasSubstr("NonZero"), HasSubstr("'y'")));
  const Graph g = bind(m, 1, {{"x", Tensor::of<float>(DType::kF32, {2, 2}, {1, 0, 3, 4})}});
  EXPECT_EQ(interpret_outputs(g, {})[0].to_doubles(), (std::vector<double>{0, 1, 1, 0, 0, 1}));
}

// Exporters write them for window attention and position biases.
TEST(Bind, GatherNDScatterNDAndCumSumAreComputedWhereTheyAreNoShapeArithmetic) {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 3}}};
  m.outputs = {"y"};
  m.initialisers["axis"] = Tensor::i64({1}).reshaped({});
  m.initialisers["at"] = Tensor::i64({0, 2}).reshaped({1, 2});
  m.nodes = {{"CumSum", {"x", "axis"}, {"sums"}, {}},
             {"GatherND", {"sums", "at"}, {"last"}, {}},
             {"ScatterND", {"x", "at", "last"}, {"y"}, {}}};
  const Graph g = bind(m, 2);
  EXPECT_EQ(g.nodes().size(), 3u);
  const Tensor x = Tensor::of<float>(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(interpret_outputs(g, std::vector{x})[0].to_doubles(),
            (std::vector<double>{1, 2, 6, 4, 5, 6}));
}

// 2^40 doubles would take the machine down.
TEST(Bind, AHugeConstantIsRefusedRatherThanComputedAtImport) {
  Model m;
  m.inputs = {{"x", DType::kF32, {1}}};
  m.outputs = {"y"};
  m.initialisers["s"] = Tensor::i64({int64_t{1} << 20, int64_t{1} << 20});
  m.nodes = {{"ConstantOfShape", {"s"}, {"y"}, {}}};
  EXPECT_THROW(bind(m, 1), Error);
}

}  // namespace
}  // namespace ndtrain
