#include "framework/onnx/tensor_extents.h"

#include <gtest/gtest.h>

#include "tests/onnx/model_proto.h"

namespace ndtrain {
namespace {

onnx::TensorProto& add_raw(onnx::ModelProto& m, const std::string& name, int type,
                           const std::string& bytes) {
  onnx::TensorProto& t = *m.mutable_graph()->add_initializer();
  t.set_name(name);
  t.set_data_type(type);
  t.set_raw_data(bytes);
  return t;
}

onnx::ModelProto three_tensors() {
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {-1, 3});
  add_raw(m, "a", onnx::TensorProto::FLOAT, std::string(400, 'a'));
  add_floats(m, "typed", {2}, {1, 2});
  add_raw(m, "b", onnx::TensorProto::FLOAT16, "bbbb");
  add_raw(m, "odd", onnx::TensorProto::FLOAT, "five!");
  add_node(m, "Relu", {"x"}, {"y"});
  add_output(m, "y");
  return m;
}

TEST(TensorExtents, AreWhereTheRawDataIs) {
  const std::string bytes = three_tensors().SerializeAsString();
  const auto extents = tensor_extents(bytes).or_throw();
  ASSERT_EQ(extents.size(), 3U);
  EXPECT_EQ(extents[0].name, "a");
  EXPECT_EQ(bytes.substr(extents[0].offset, extents[0].length), std::string(400, 'a'));
  EXPECT_EQ(extents[0].element, 4U);
  EXPECT_EQ(bytes.substr(extents[1].offset, extents[1].length), "bbbb");
  EXPECT_EQ(extents[1].element, 2U);
  EXPECT_EQ(extents[2].element, 1U) << "five bytes are no floats";
}

// As protobuf merges them: of a field that is there twice the last counts, and graphs are joined.
TEST(TensorExtents, FollowRepeatedFieldsAsParsingDoes) {
  onnx::ModelProto again;
  add_raw(again, "c", onnx::TensorProto::INT8, "cc");
  std::string bytes = three_tensors().SerializeAsString() + again.SerializeAsString();
  EXPECT_EQ(tensor_extents(bytes).or_throw().size(), 4U);

  onnx::TensorProto first, second;
  first.set_raw_data("gone");
  second.set_name("d");
  second.set_raw_data("kept");
  const std::string merged = first.SerializeAsString() + second.SerializeAsString();
  bytes = std::string("\x3a") + static_cast<char>(merged.size() + 2) + "\x2a" +
          static_cast<char>(merged.size()) + merged;
  const auto extents = tensor_extents(bytes).or_throw();
  ASSERT_EQ(extents.size(), 1U);
  EXPECT_EQ(bytes.substr(extents[0].offset, extents[0].length), "kept");
}

TEST(TensorExtents, WhatIsNoModelIsRefused) {
  EXPECT_EQ(tensor_extents("").status().code(), Code::kCorrupt);
  EXPECT_EQ(tensor_extents("no model at all").status().code(), Code::kCorrupt);
  const std::string bytes = three_tensors().SerializeAsString();
  size_t refused = 0;
  for (size_t n = 0; n < bytes.size(); ++n) {
    const auto extents = tensor_extents(std::string_view(bytes).substr(0, n));
    refused += !extents.ok();
    if (!extents.ok()) continue;
    for (const TensorExtent& e : *extents) EXPECT_LE(e.offset + e.length, n);
  }
  EXPECT_GT(refused, bytes.size() - 20) << "most cuts are inside of the graph";
}

}  // namespace
}  // namespace ndtrain
