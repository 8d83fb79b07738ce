// Inputs that are given as constants.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/onnx/export.h"
#include "tests/onnx/model_proto.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// y = x scale + shift, where scale is of x's row and shift one number.
onnx::ModelProto scaled() {
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {-1, 3});
  add_input(m, "scale", {3});
  add_input(m, "shift", {});
  add_node(m, "Mul", {"x", "scale"}, {"p"});
  add_node(m, "Add", {"p", "shift"}, {"y"});
  add_output(m, "y");
  return m;
}

const Tensor kRow = floats({1, 3}, {1, 2, 3});

TEST(DeclaredInputs, AreConstantsOfTheModelAndNoWeights) {
  const Model model = import_proto(scaled(), {.inputs = {{"scale", {2, 3, 4}}, {"shift", {0.5}}}});
  ASSERT_EQ(model.inputs.size(), 1U);
  EXPECT_THAT(run_model(model, {kRow})[0].to_doubles(), ElementsAre(2.5, 6.5, 12.5));
  EXPECT_TRUE(bind(model, 1).params().empty());
  const Model again = import_model(export_model(model));
  EXPECT_EQ(content_id(again), content_id(model));
}

TEST(DeclaredInputs, OneNumberIsThatOfAllElements) {
  const Model model = import_proto(scaled(), {.inputs = {{"scale", {2}}, {"shift", {1}}}});
  EXPECT_THAT(run_model(model, {kRow})[0].to_doubles(), ElementsAre(3, 5, 7));
}

TEST(DeclaredInputs, GoOverTheFilesOwnValue) {
  onnx::ModelProto m = scaled();
  add_floats(m, "scale", {3}, {9, 9, 9});
  const Model model = import_proto(m, {.inputs = {{"scale", {2}}, {"shift", {1}}}});
  EXPECT_THAT(run_model(model, {kRow})[0].to_doubles(), ElementsAre(3, 5, 7));
}

TEST(DeclaredInputs, DecideShapes) {
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {-1, 6});
  add_input(m, "shape", {3}, onnx::TensorProto::INT64);
  add_node(m, "Reshape", {"x", "shape"}, {"y"});
  add_output(m, "y");
  const Model model = import_proto(m, {.inputs = {{"shape", {-1, 3, 2}}}});
  EXPECT_EQ(bind(model, 4).type(bind(model, 4).outputs()[0]).shape, (Shape{4, 3, 2}));
  EXPECT_THAT(refusal(m, {.inputs = {{"shape", {-1, 3, 0.5}}}}), HasSubstr("cannot be 0.5"));
}

TEST(DeclaredInputs, AreRefusedWhereTheyDoNotFit) {
  EXPECT_THAT(refusal(scaled(), {.inputs = {{"scale", {1, 2}}}}),
              AllOf(HasSubstr("'scale'"), HasSubstr("takes 1 number or 3, not 2")));
  EXPECT_THAT(refusal(scaled(), {.inputs = {{"bias", {1}}}}),
              AllOf(HasSubstr("no input 'bias'"), HasSubstr("x, scale, shift")));
  // A constant is of one extent, which must be known.
  EXPECT_THAT(refusal(scaled(), {.inputs = {{"x", {1}}}}), HasSubstr("--dim x[0]=N"));
  EXPECT_EQ(refusal(scaled(), {.dims = {{"x[0]", 2}}, .inputs = {{"x", {1}}}}), "");
}

// With the others constant the model takes images alone: their side needs no flag.
TEST(DeclaredInputs, LeaveTheSideOfImagesToThePreprocessing) {
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {-1, 3, -1, -1});
  add_input(m, "scale", {1});
  add_node(m, "Mul", {"x", "scale"}, {"y"});
  add_output(m, "y");
  const auto side = [](const auto&) { return int64_t{32}; };
  EXPECT_THAT(refusal(m, {.image_side = side}), HasSubstr("--dim N=N"));
  const Model model = import_proto(m, {.inputs = {{"scale", {2}}}, .image_side = side});
  EXPECT_THAT(model.inputs[0].dims, ElementsAre(kBatch, 3, 32, 32));
}

}  // namespace
}  // namespace ndtrain
