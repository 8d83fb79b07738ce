// Attention against what ONNX's own reference gives (golden/attention.txt, by
// tools/golden/attention.py), and what is refused of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "framework/core/limits.h"
#include "framework/onnx/export.h"
#include "framework/passes/inference.h"
#include "framework/passes/rewrites.h"
#include "framework/runtime/interpreter.h"
#include "tests/onnx/model_proto.h"
#include "tests/support/paths.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

const char* const kInputs[] = {"q", "k", "v", "mask", "past_k", "past_v"};
constexpr float kOut = -std::numeric_limits<float>::infinity();
const char* const kOutputs[] = {"y", "present_k", "present_v", "qk"};

struct GoldenCase {
  std::string name;
  onnx::ModelProto proto;
  std::vector<Tensor> inputs;
  std::vector<std::vector<double>> outputs;
};

Shape shape_of(const std::string& text) {
  std::vector<int64_t> dims;
  std::istringstream in(text);
  for (std::string d; std::getline(in, d, ',');) dims.push_back(std::stoll(d));
  return Shape(dims);
}

Tensor input_values(const Shape& shape, size_t number, bool is_bool) {
  Tensor t({is_bool ? DType::kBool : DType::kF32, shape});
  for (int64_t i = 0; i < shape.count(); ++i) {
    const auto k = static_cast<int64_t>(number);
    if (is_bool) {
      t.mutable_as<uint8_t>()[static_cast<size_t>(i)] = (5 * i + k) % 3 != 0;
    } else {
      t.mutable_as<float>()[static_cast<size_t>(i)] =
          static_cast<float>((7 * i + 13 * k) % 17 - 8) / 8;
    }
  }
  return t;
}

GoldenCase begin_case(std::istringstream& line) {
  GoldenCase c;
  int64_t opset = 0;
  size_t outputs = 0;
  line >> c.name >> opset >> outputs;
  c.proto = empty_model(opset, 10);
  Names names;
  size_t number = 0;
  for (std::string text; line >> text; ++number) {
    names.emplace_back(text == "-" ? "" : kInputs[number]);
    if (text == "-") continue;
    const bool is_bool = text[0] == '?';
    const Shape shape = shape_of(text.substr(is_bool ? 1 : 0));
    c.inputs.push_back(input_values(shape, number, is_bool));
    std::vector<int64_t> dims = shape.dims();
    if (number < 3 || number > 3) dims[0] = -1;
    add_input(c.proto, kInputs[number], dims,
              is_bool ? onnx::TensorProto::BOOL : onnx::TensorProto::FLOAT);
  }
  add_node(c.proto, "Attention", names, Names(kOutputs, kOutputs + outputs));
  for (size_t k = 0; k < outputs; ++k) add_output(c.proto, kOutputs[k]);
  return c;
}

std::vector<GoldenCase> golden_cases() {
  std::vector<GoldenCase> cases;
  std::ifstream file(support::source_path("/tests/onnx/golden/attention.txt"));
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string what, key, kind;
    line >> what;
    if (what == "case") {
      cases.push_back(begin_case(line));
    } else if (what == "attr") {
      double value = 0;
      line >> key >> kind >> value;
      onnx::NodeProto& n = *cases.back().proto.mutable_graph()->mutable_node(0);
      if (kind == "f") set_float(n, key, static_cast<float>(value));
      if (kind == "i") set_int(n, key, static_cast<int64_t>(value));
    } else {
      std::vector<double>& out = cases.back().outputs.emplace_back();
      for (std::string number; line >> number;) out.push_back(std::stod(number));
    }
  }
  return cases;
}

class AttentionCase : public ::testing::TestWithParam<GoldenCase> {
 protected:
  void expect_outputs_of(const Model& model) const {
    const std::vector<Tensor> got = run_model(model, GetParam().inputs);
    ASSERT_EQ(got.size(), GetParam().outputs.size());
    for (size_t k = 0; k < got.size(); ++k) {
      const std::vector<double> y = got[k].to_doubles(), &want = GetParam().outputs[k];
      ASSERT_EQ(y.size(), want.size()) << "output " << k;
      for (size_t i = 0; i < y.size(); ++i) {
        if (std::isinf(want[i])) {
          EXPECT_EQ(y[i], want[i]) << "output " << k << ", element " << i;
        } else {
          EXPECT_NEAR(y[i], want[i], 2e-5) << "output " << k << ", element " << i;
        }
      }
    }
  }
};

TEST_P(AttentionCase, GivesWhatOnnxGivesBeforeAndAfterAnExport) {
  const Model model = import_proto(GetParam().proto);
  expect_outputs_of(model);
  const Model again = import_model(export_model(model));
  EXPECT_EQ(content_id(again), content_id(model));
  expect_outputs_of(again);
}

INSTANTIATE_TEST_SUITE_P(Onnx, AttentionCase, ::testing::ValuesIn(golden_cases()),
                         [](const auto& c) { return c.param.name; });

TEST(Attention, HasGoldenCases) { EXPECT_EQ(golden_cases().size(), 25u); }

onnx::ModelProto attention(const std::vector<int64_t>& q, const std::vector<int64_t>& k,
                           const std::vector<int64_t>& v, int64_t opset = 23) {
  onnx::ModelProto m = empty_model(opset, 10);
  add_input(m, "q", q);
  add_input(m, "k", k);
  add_input(m, "v", v);
  add_node(m, "Attention", {"q", "k", "v"}, {"y"});
  add_output(m, "y");
  return m;
}

onnx::NodeProto& attention_node(onnx::ModelProto& m) { return *m.mutable_graph()->mutable_node(0); }

// What devices with a kernel for it are offered.
TEST(Attention, IsTheChainThatIsOfferedAsOneKernel) {
  onnx::ModelProto upright = attention({-1, 4, 50, 16}, {-1, 4, 50, 16}, {-1, 4, 50, 16});
  onnx::ModelProto flat = attention({-1, 50, 64}, {-1, 50, 64}, {-1, 50, 64});
  for (const char* name : {"q_num_heads", "kv_num_heads"}) set_int(attention_node(flat), name, 4);
  onnx::ModelProto grouped = attention({-1, 4, 50, 16}, {-1, 2, 50, 16}, {-1, 2, 50, 16});
  for (const onnx::ModelProto& m : {upright, flat, grouped}) {
    const Graph g = inference_graph(import_proto(m), 3);
    const Graph fused = rewrite(g, kAttention).graph;
    EXPECT_EQ(std::ranges::count(fused.nodes(), "FusedAttention", &Node::op), 1);
    EXPECT_EQ(std::ranges::count(fused.nodes(), "Softmax", &Node::op), 0);
  }
}

// Exporters name the heads of four-dimensional inputs too, and say shapes nowhere.
TEST(Attention, FindsTheShapesOfValuesThatNobodyDeclares) {
  onnx::ModelProto m = empty_model(23, 10);
  add_input(m, "x", {-1, 2, 8});
  add_ints(m, "shape", {4}, {0, 2, 2, 4});
  add_node(m, "Reshape", {"x", "shape"}, {"r"});
  set_ints(add_node(m, "Transpose", {"r"}, {"q"}), "perm", {0, 2, 1, 3});
  set_int(add_node(m, "Attention", {"q", "q", "q"}, {"y"}), "q_num_heads", 2);
  add_output(m, "y");
  const Model model = import_proto(m);
  const Graph g = bind(model, 5);
  EXPECT_EQ(g.shape(g.outputs()[0]), (Shape{5, 2, 2, 4}));
}

TEST(Attention, AMaskThatIsKnownToLeaveSomethingTakesNoGuard) {
  onnx::ModelProto m = attention({-1, 1, 2, 4}, {-1, 1, 2, 4}, {-1, 1, 2, 4});
  const float kInf = std::numeric_limits<float>::infinity();
  add_floats(m, "mask", {2, 2}, {0, -kInf, 0, 0});
  attention_node(m).add_input("mask");
  const auto guards = [](const onnx::ModelProto& proto) {
    return std::ranges::count(import_proto(proto).nodes, "Where", &ModelNode::op);
  };
  EXPECT_EQ(guards(m), 0);
  m.mutable_graph()->mutable_initializer(0)->set_float_data(0, -kInf);
  EXPECT_EQ(guards(m), 2);
}

// Of 2 queries and 3 keys, of which the second image has two.
TEST(Attention, LengthsOfImagesAreMasks) {
  const std::vector<int64_t> q = {2, 1, 2, 4}, k = {2, 1, 3, 4};
  const std::vector<Tensor> in = {input_values(Shape(q), 1, false),
                                  input_values(Shape(k), 2, false),
                                  input_values(Shape(k), 3, false)};
  const auto with = [&](const char* input, size_t at, bool causal) {
    onnx::ModelProto m = attention(q, k, k, 25);
    add_ints(m, "lengths", {2}, {3, 2});
    const std::vector<float> two_of_three = {0, 0, 0, 0, 0, kOut};
    const std::vector<float> by_place = {0, 0, kOut, 0, 0, 0, 0, kOut, kOut, 0, 0, kOut};
    add_floats(m, "of_lengths", {2, 1, 1, 3}, two_of_three);
    add_floats(m, "of_places", {2, 1, 2, 3}, by_place);
    while (static_cast<size_t>(attention_node(m).input_size()) < at)
      attention_node(m).add_input("");
    attention_node(m).add_input(input);
    if (causal) set_int(attention_node(m), "is_causal", 1);
    return run_model(import_proto(m), in)[0].to_doubles();
  };
  EXPECT_EQ(with("lengths", 6, false), with("of_lengths", 3, false));
  EXPECT_EQ(with("lengths", 6, true), with("of_places", 3, false));
}

TEST(Attention, AMaskOfFewerKeysLeavesOutTheOthers) {
  const std::vector<int64_t> x = {1, 1, 3, 4};
  const auto with = [&](const std::vector<float>& mask) {
    onnx::ModelProto m = attention(x, x, x, 24);
    add_floats(m, "mask", {3, static_cast<int64_t>(mask.size()) / 3}, mask);
    attention_node(m).add_input("mask");
    return run_model(import_proto(m), std::vector(3, input_values(Shape(x), 1, false)))[0];
  };
  EXPECT_EQ(with({0, 1, 2, 0, 1, 0}).to_doubles(),
            with({0, 1, kOut, 2, 0, kOut, 1, 0, kOut}).to_doubles());
}

TEST(Attention, WhatIsNotSupportedIsRefusedWithTheReason) {
  const std::vector<int64_t> x = {2, 2, 3, 4};
  onnx::ModelProto m = attention(x, x, {2, 2, 5, 4});
  EXPECT_THAT(refusal(m), HasSubstr("there are keys f32[2,2,3,4] and values f32[2,2,5,4]"));
  EXPECT_THAT(refusal(attention({2, 3, 8}, {2, 3, 8}, {2, 3, 8})), HasSubstr("q_num_heads is 0"));
  EXPECT_THAT(refusal(attention({3, 8}, {3, 8}, {3, 8})), HasSubstr("rank 3 or 4"));
  EXPECT_THAT(refusal(attention({2, 3, 3, 4}, x, x)),
              HasSubstr("3 heads of queries do not share 2"));
  m = attention(x, x, x, 24);
  add_ints(m, "lengths", {2}, {3, 2});
  for (const char* input : {"", "", "", "lengths"}) attention_node(m).add_input(input);
  EXPECT_EQ(refusal(m), "");
  for (const int k : {4, 5}) attention_node(m).set_input(k, "lengths");
  EXPECT_THAT(refusal(m), HasSubstr("nonpad_kv_seqlen and past_key do not"));
  m = attention(x, x, x);
  add_floats(m, "mask", {3, 2}, {0, 0, 0, 0, 0, 0});
  attention_node(m).add_input("mask");
  EXPECT_THAT(refusal(m), HasSubstr("for 3 keys is not supported"));
  m = attention(x, x, x);
  set_int(attention_node(m), "q_num_heads", 4);
  EXPECT_THAT(refusal(m), HasSubstr("q_num_heads is 4, which does not fit"));
  m = attention(x, x, x);
  set_int(attention_node(m), "qk_matmul_output_mode", 4);
  EXPECT_THAT(refusal(m), HasSubstr("must be 0 to 3"));
  m = attention(x, x, x);
  set_int(attention_node(m), "surprise", 4);
  EXPECT_THAT(refusal(m), HasSubstr("surprise"));
}

TEST(Attention, OnePartThatIsRefusedIsSaidOnce) {
  onnx::ModelProto m = empty_model(23, 10);
  add_input(m, "x", {2, 2, 3, 4});
  add_node(m, "NoSuchOp", {"x"}, {"q"});
  add_node(m, "Attention", {"q", "q", "q"}, {"a"});
  add_node(m, "Attention", {"a", "a", "a"}, {"y"});
  add_output(m, "y");
  EXPECT_THAT(refusal(m), ::testing::Not(HasSubstr("Attention")));
}

TEST(Attention, CausalMasksHaveALimit) {
  const auto taken = [](int64_t queries, int64_t keys) {
    onnx::ModelProto m = attention({1, 1, queries, 1}, {1, 1, keys, 1}, {1, 1, keys, 1});
    set_int(attention_node(m), "is_causal", 1);
    return refusal(m);
  };
  static_assert(limits::kAttentionMask == 2048 * 2048);
  EXPECT_EQ(taken(3, 1398101), "");
  EXPECT_EQ(taken(2048, 2048), "");
  EXPECT_THAT(taken(5, 838861), HasSubstr("has at most 4194304 places"));
}

}  // namespace
}  // namespace ndtrain
