#include "framework/onnx/functions.h"

#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include "framework/core/limits.h"
#include "tests/onnx/model_proto.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// x f32[2] through a call of local function `name` to y.
onnx::ModelProto calling(const std::string& name) {
  onnx::ModelProto m = empty_model();
  onnx::OperatorSetIdProto& local = *m.add_opset_import();
  local.set_domain("local");
  local.set_version(1);
  add_input(m, "x", {2});
  add_node(m, name, {"x"}, {"y"}).set_domain("local");
  add_output(m, "y");
  return m;
}

// f0 calls f1 and so on; the last is Relu. `depth` functions in all.
onnx::ModelProto nested(int depth) {
  onnx::ModelProto m = calling("f0");
  for (int i = 0; i < depth; ++i) {
    onnx::FunctionProto& f = add_function(m, "f" + std::to_string(i), {"a"}, {"b"});
    if (i + 1 < depth) {
      add_node(f, "f" + std::to_string(i + 1), {"a"}, {"b"}).set_domain("local");
    } else {
      add_node(f, "Relu", {"a"}, {"b"});
    }
  }
  return m;
}

TEST(Functions, MayBeNestedUpToTheLimit) {
  for (const int depth : {1, limits::kFunctionDepth - 1, limits::kFunctionDepth}) {
    EXPECT_EQ(run_floats(nested(depth), {floats({2}, {-1, 2})}), (std::vector<double>{0, 2}));
  }
  EXPECT_THAT(refusal(nested(limits::kFunctionDepth + 1)), HasSubstr("nested more than"));
}

TEST(Functions, RecursionIsRefused) {
  onnx::ModelProto m = calling("loop");
  add_node(add_function(m, "loop", {"a"}, {"b"}), "loop", {"a"}, {"b"}).set_domain("local");
  EXPECT_THAT(refusal(m), HasSubstr("calls itself"));
}

TEST(Functions, ThatDoubleForEverAreRefused) {
  onnx::ModelProto m = calling("f0");
  for (int i = 0; i < 30; ++i) {
    onnx::FunctionProto& f = add_function(m, "f" + std::to_string(i), {"a"}, {"b"});
    const std::string next = i < 29 ? "f" + std::to_string(i + 1) : "";
    for (const char* output : {"b", "unused"}) {
      if (!next.empty()) add_node(f, next, {"a"}, {output}).set_domain("local");
    }
    if (next.empty()) add_node(f, "Relu", {"a"}, {"b"});
  }
  EXPECT_THAT(refusal(m), HasSubstr("more than 1048576 nodes"));
}

// Each calls the one before twice, and the first does nothing: f19 is 2^20 - 1 calls.
TEST(Functions, CallsAndNodesAreCountedUpToTheLimit) {
  OnnxModel doubling;
  for (int i = 0; i < 20; ++i) {
    OnnxFunction f{.domain = "local", .name = "f" + std::to_string(i)};
    if (i > 0) {
      f.nodes.resize(2, {.domain = "local", .op = "f" + std::to_string(i - 1)});
    }
    doubling.functions.push_back(std::move(f));
  }
  static_assert(limits::kModelNodes == 1 << 20);
  for (const int relus : {0, 1, 2}) {
    OnnxModel m = doubling;
    m.nodes = {{.domain = "local", .op = "f19"}};
    m.nodes.resize(1 + static_cast<size_t>(relus), {.op = "Relu"});
    Problems problems;
    if (relus < 2) {
      EXPECT_NO_THROW(inline_functions(m, problems));
      EXPECT_EQ(m.nodes.size(), static_cast<size_t>(relus));
    } else {
      EXPECT_THROW(inline_functions(m, problems), Error);
    }
  }
}

TEST(Functions, PassAttributesOn) {
  onnx::ModelProto m = calling("leak");
  onnx::FunctionProto& f = add_function(m, "leak", {"a"}, {"b"});
  f.add_attribute("slope");
  set_reference(add_node(f, "LeakyRelu", {"a"}, {"b"}), "alpha", "slope");
  onnx::NodeProto& call = *m.mutable_graph()->mutable_node(0);
  const Tensor x = floats({2}, {-8, 2});
  EXPECT_NEAR(run_floats(m, {x})[0], -0.08, 1e-6);  // not given: the operator's own default
  set_float(call, "slope", 0.5f);
  EXPECT_EQ(run_floats(m, {x})[0], -4);
  set_float(call, "unknown", 1);
  EXPECT_THAT(refusal(m), HasSubstr("no attribute unknown"));
}

// As a file has them: attribute_proto and overload are younger than some generated classes.
onnx::ModelProto reread(const onnx::ModelProto& m) {
  onnx::ModelProto read;
  EXPECT_TRUE(read.ParseFromString(m.SerializeAsString()));
  return read;
}

TEST(Functions, HaveDefaultAttributesAndOverloads) {
  onnx::ModelProto m = calling("leak");
  for (const auto& [overload, slope] : {std::pair("", 0.25f), {"steep", 0.5f}}) {
    onnx::FunctionProto& f = add_function(m, "leak", {"a"}, {"b"});
    set_reference(add_node(f, "LeakyRelu", {"a"}, {"b"}), "alpha", "slope");
    onnx::AttributeProto a;
    a.set_name("slope");
    a.set_type(onnx::AttributeProto::FLOAT);
    a.set_f(slope);
    f.mutable_unknown_fields()->AddLengthDelimited(11, a.SerializeAsString());
    f.mutable_unknown_fields()->AddLengthDelimited(13, overload);
  }
  const Tensor x = floats({2}, {-8, 2});
  EXPECT_EQ(run_floats(reread(m), {x})[0], -2);
  onnx::NodeProto& call = *m.mutable_graph()->mutable_node(0);
  call.mutable_unknown_fields()->AddLengthDelimited(8, "steep");
  EXPECT_EQ(run_floats(reread(m), {x})[0], -4);
}

TEST(Functions, MayGiveOutAnInputAndTheSameValueTwice) {
  onnx::ModelProto m = calling("same");
  onnx::FunctionProto& f = add_function(m, "same", {"a"}, {"a", "b", "b"});
  add_node(f, "Neg", {"a"}, {"b"});
  onnx::NodeProto& call = *m.mutable_graph()->mutable_node(0);
  call.add_output("n");
  call.add_output("n2");
  add_output(m, "n");
  add_output(m, "n2");
  const auto out = run_model(import_proto(m), {floats({2}, {-1, 2})});
  EXPECT_EQ(out.at(0).to_doubles(), (std::vector<double>{-1, 2}));
  EXPECT_EQ(out.at(1).to_doubles(), (std::vector<double>{1, -2}));
  EXPECT_EQ(out.at(2).to_doubles(), (std::vector<double>{1, -2}));
}

TEST(Functions, InnerNamesDoNotCollide) {
  onnx::ModelProto m = calling("twice");
  add_node(m, "twice", {"y"}, {"z"}).set_domain("local");
  add_node(m, "Relu", {"x"}, {"twice/h"});
  add_output(m, "z");
  onnx::FunctionProto& f = add_function(m, "twice", {"a"}, {"b"});
  add_node(f, "Add", {"a", "a"}, {"h"});
  add_node(f, "Identity", {"h"}, {"b"});
  const auto out = run_model(import_proto(m), {floats({2}, {-1, 2})});
  EXPECT_EQ(out.at(1).to_doubles(), (std::vector<double>{-4, 8}));
}

TEST(Functions, TheirOpsetIsTheirOwn) {
  onnx::ModelProto m = calling("squeeze");
  onnx::FunctionProto& f = add_function(m, "squeeze", {"a"}, {"b"});
  f.mutable_opset_import(0)->set_version(11);
  set_ints(add_node(f, "Unsqueeze", {"a"}, {"u"}), "axes", {0});
  set_ints(add_node(f, "Squeeze", {"u"}, {"b"}), "axes", {0});
  EXPECT_EQ(run_floats(m, {floats({2}, {-1, 2})}), (std::vector<double>{-1, 2}));
  f.mutable_opset_import(0)->set_version(17);
  EXPECT_THAT(refusal(m), AllOf(HasSubstr("Unsqueeze"), HasSubstr("attribute axes")));
  f.mutable_opset_import(0)->set_version(99);
  EXPECT_THAT(refusal(m), HasSubstr("opset 99"));
}

}  // namespace
}  // namespace ndtrain
