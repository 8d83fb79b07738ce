#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/runtime/interpreter.h"
#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using testing::add_weight;
using testing::error_of;
using testing::flattening_model;
using ::testing::HasSubstr;
using testing::interpret_named;
using testing::named_inputs;

std::vector<std::string> input_names(const Model& m) {
  std::vector<std::string> names;
  for (const ModelInput& in : m.inputs) names.push_back(in.name);
  return names;
}

void expect_halves_equal_whole(const Model& m, const std::vector<std::string>& features) {
  const Model front = extract(m, input_names(m), features);
  const Model rear = extract(m, features, m.outputs);
  for (int64_t batch : {1, 3}) {
    const Graph whole = bind(m, batch), a = bind(front, batch), b = bind(rear, batch);
    const auto given = named_inputs(whole, 7);
    testing::NamedValues between;
    const auto values = interpret_named(a, given);
    for (size_t i = 0; i < features.size(); ++i) between[features[i]] = values.at(i);
    EXPECT_EQ(interpret_named(b, between), interpret_named(whole, given)) << "batch " << batch;
  }
}

TEST(Extract, HalvesEqualTheWholeAtEveryCut) {
  for (const char* feature : {"c", "h", "flat"}) {
    SCOPED_TRACE(feature);
    expect_halves_equal_whole(flattening_model(), {feature});
  }
}

TEST(Extract, AHalfKeepsOnlyItsOwnWeights) {
  const Model rear = extract(flattening_model(), std::vector<std::string>{"flat"},
                             std::vector<std::string>{"logits"});
  EXPECT_EQ(rear.initialisers.size(), 2U);
  EXPECT_EQ(rear.inputs[0].dims, (std::vector<int64_t>{kBatch, 12}));
}

// The shape of a value in front of the cut is needed behind it.
TEST(Extract, ShapesOfValuesBeforeTheCutFollowTheBatch) {
  Model m = flattening_model();
  m.nodes[2].inputs[0] = "x";
  expect_halves_equal_whole(m, {"h"});
  m.nodes[2].attrs = {{"start", int64_t{-4}}, {"end", int64_t{1}}};
  expect_halves_equal_whole(m, {"h"});
}

TEST(Extract, AValueThatDoesNotCrossIsRefused) {
  Model m = flattening_model();
  m.nodes[1] = {"Add", {"c", "c"}, {"h"}, {}};
  m.nodes[6].inputs[0] = "sum";
  m.nodes.insert(m.nodes.begin() + 6, {"Add", {"h", "c"}, {"sum"}, {}});
  EXPECT_THAT(error_of([&] {
                extract(m, std::vector<std::string>{"h"}, std::vector<std::string>{"logits"});
              }),
              HasSubstr("'c'"));
  expect_halves_equal_whole(m, {"h", "c"});
}

TEST(Extract, OutputsOfOneNodeCrossTogether) {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 6}}};
  m.outputs = {"y"};
  add_weight(m, "w", {3, 3});
  m.nodes = {{"Split", {"x"}, {"a", "b"}, {{"axis", int64_t{1}}}},
             {"MatMul", {"a", "w"}, {"aw"}, {}},
             {"Add", {"aw", "b"}, {"y"}, {}}};
  expect_halves_equal_whole(m, {"a", "b"});
  EXPECT_THAT(
      error_of([&] { extract(m, std::vector<std::string>{"a"}, std::vector<std::string>{"y"}); }),
      HasSubstr("'b'"));
}

TEST(Extract, AbsentInputsAndOutputsAreNoValue) {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 6}}};
  m.outputs = {"y"};
  m.initialisers["high"] = Tensor::of<float>(DType::kF32, {}, {0.5F});
  m.nodes = {{"Split", {"x"}, {"a", ""}, {{"axis", int64_t{1}}}},
             {"Relu", {"a"}, {"h"}, {}},
             {"Clip", {"h", "", "high"}, {"y"}, {}}};
  expect_halves_equal_whole(m, {"h"});
}

TEST(Extract, AValueThatIsNotThereIsRefused) {
  EXPECT_THAT(error_of([] {
                extract(flattening_model(), std::vector<std::string>{"nothing"},
                        std::vector<std::string>{"logits"});
              }),
              HasSubstr("'nothing'"));
  EXPECT_THAT(error_of([] {
                extract(flattening_model(), std::vector<std::string>{"x"},
                        std::vector<std::string>{"nothing"});
              }),
              HasSubstr("'nothing'"));
}

TEST(Extract, OnlyTheFirstDimensionMayBeTheBatch) {
  Model m = flattening_model();
  m.nodes.resize(1);
  m.nodes.push_back({"Transpose", {"c"}, {"h"}, {{"perm", Ints{1, 0, 2, 3}}}});
  m.nodes.push_back({"Relu", {"h"}, {"y"}, {}});
  m.outputs = {"y"};
  EXPECT_THAT(
      error_of([&] { extract(m, std::vector<std::string>{"h"}, std::vector<std::string>{"y"}); }),
      HasSubstr("only the first may be the batch"));
}

}  // namespace
}  // namespace ndtrain
