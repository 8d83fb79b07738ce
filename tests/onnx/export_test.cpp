#include "framework/onnx/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/publish.h"
#include "framework/onnx/metadata.h"
#include "framework/onnx/onnx_model.h"
#include "framework/onnx/tensor_file.h"
#include "framework/testing/memory_fs.h"
#include "tests/onnx/model_proto.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

onnx::ModelProto exported(const Model& model) {
  onnx::ModelProto m;
  EXPECT_TRUE(m.ParseFromString(export_model(model)));
  return m;
}

std::string export_refusal(const Model& model, const ExportOptions& options = {}) {
  try {
    export_model(model, options);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

// What opset 18 and later can say and opset 17 cannot.
onnx::ModelProto newer_forms() {
  onnx::ModelProto m = empty_model(20, 9);
  add_input(m, "x", {-1, 3, 5});
  add_ints(m, "axes", {1}, {2});
  add_ints(m, "pads", {2}, {1, 2});
  add_floats(m, "value", {}, {9});
  onnx::NodeProto& split = add_node(m, "Split", {"x"}, {"a", "b"});
  set_int(split, "axis", 2);
  set_int(split, "num_outputs", 2);
  add_node(m, "Pad", {"b", "pads", "value", "axes"}, {"p"});
  add_node(m, "Gelu", {"p"}, {"g"});
  set_string(add_node(m, "Gelu", {"g"}, {"h"}), "approximate", "tanh");
  add_node(m, "Concat", {"a", "h"}, {"c"});
  set_int(*m.mutable_graph()->mutable_node(4), "axis", 2);
  set_int(add_node(m, "ReduceMean", {"c", "axes"}, {"y"}), "keepdims", 0);
  set_int(add_node(m, "ReduceMax", {"c"}, {"z"}), "noop_with_empty_axes", 1);
  add_output(m, "y");
  add_output(m, "z");
  return m;
}

TEST(Export, IsOpset17WithTheBatchNamedN) {
  const onnx::ModelProto m = exported(import_proto(newer_forms()));
  EXPECT_EQ(m.ir_version(), 8);
  EXPECT_EQ(m.opset_import(0).version(), 17);
  for (const onnx::ValueInfoProto* v : {&m.graph().input(0), &m.graph().output(0)}) {
    EXPECT_EQ(v->type().tensor_type().shape().dim(0).dim_param(), "N") << v->name();
    EXPECT_EQ(v->type().tensor_type().shape().dim(1).dim_value(), 3) << v->name();
  }
}

TEST(Export, WritesNewerFormsInOpset17) {
  const onnx::ModelProto m = exported(import_proto(newer_forms()));
  std::map<std::string, const onnx::NodeProto*> nodes;
  for (const auto& n : m.graph().node()) nodes[n.op_type()] = &n;
  EXPECT_EQ(nodes.at("Split")->input_size(), 2);  // 5 = 3 + 2
  EXPECT_EQ(nodes.at("Pad")->input_size(), 3);
  EXPECT_EQ(nodes.at("ReduceMean")->input_size(), 1);
  EXPECT_EQ(nodes.count("ReduceMax"), 0u);  // reduced over nothing
  EXPECT_EQ(nodes.at("GeluTanh")->domain(), "ndtrain");
  EXPECT_EQ(m.functions_size(), 2);
}

TEST(Export, WritesNewerFormsAsTheyAreWhereTheOpsetHasThem) {
  onnx::ModelProto m;
  ASSERT_TRUE(m.ParseFromString(export_model(import_proto(newer_forms()), {.opset = kMaxOpset})));
  EXPECT_EQ(m.ir_version(), 14);
  EXPECT_EQ(m.opset_import_size(), 1);
  EXPECT_EQ(m.opset_import(0).version(), kMaxOpset);
  EXPECT_EQ(m.functions_size(), 0);
  std::map<std::string, const onnx::NodeProto*> nodes;
  for (const auto& n : m.graph().node()) nodes[n.op_type()] = &n;
  EXPECT_EQ(nodes.at("ReduceMean")->input_size(), 2);
  EXPECT_EQ(nodes.count("Gelu"), 1u);
}

// Of convolutions bf16 is an input since opset 22.
TEST(Export, TakesTheFirstOpsetThatSaysTheModel) {
  Model model;
  model.inputs = {{"x", DType::kBF16, {kBatch, 1, 2, 2}}};
  model.initialisers["w"] = Tensor::from_doubles({DType::kBF16, {1, 1, 1, 1}}, std::vector{2.0});
  model.nodes = {{"Conv", {"x", "w"}, {"y"}, {}}};
  model.outputs = {"y"};
  EXPECT_EQ(exported(model).opset_import(0).version(), 22);
  model.inputs[0].dtype = DType::kF16;
  model.initialisers["w"] = Tensor::from_doubles({DType::kF16, {1, 1, 1, 1}}, std::vector{2.0});
  EXPECT_EQ(exported(model).opset_import(0).version(), 17);
}

TEST(Export, WritesAllOutputsThatOnnxAsksFor) {
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {-1, 5});
  add_ints(m, "k", {1}, {2});
  add_node(m, "TopK", {"x", "k"}, {"y", "places"});
  add_output(m, "y");
  const Model model = import_proto(m);
  EXPECT_EQ(model.nodes.at(0).outputs.size(), 1U) << "nobody reads the places";
  const onnx::ModelProto again = exported(model);
  EXPECT_EQ(again.graph().node(0).output_size(), 2);
  EXPECT_EQ(content_id(import_proto(again)), content_id(model));
}

TEST(Export, RefusesOpsetsThatItDoesNotWrite) {
  const Model model = import_proto(one_node("Relu"));
  for (const int opset : {16, kMaxOpset + 1}) {
    EXPECT_THAT(export_refusal(model, {.opset = opset}),
                HasSubstr("opset " + std::to_string(opset) + " cannot be written, only 17 to 28"));
  }
}

TEST(Export, ComputesTheSame) {
  const Model model = import_proto(newer_forms());
  Tensor x({DType::kF32, Shape{2, 3, 5}});
  for (size_t i = 0; i < 30; ++i) x.mutable_as<float>()[i] = 0.1f * static_cast<float>(i) - 1;
  const auto before = run_model(model, {x}), after = run_model(import_proto(exported(model)), {x});
  ASSERT_EQ(before.size(), after.size());
  for (size_t k = 0; k < before.size(); ++k) {
    EXPECT_EQ(before[k].type(), after[k].type());
    EXPECT_EQ(before[k].to_doubles(), after[k].to_doubles());
  }
}

// Our functions' bodies are what other runtimes compute: strip the meaning we give to their names.
TEST(Export, FunctionBodiesComputeTheOpsTheyStandFor) {
  const Model model = import_proto(newer_forms());
  onnx::ModelProto foreign = exported(model);
  for (auto& f : *foreign.mutable_functions()) f.set_domain("elsewhere");
  for (auto& n : *foreign.mutable_graph()->mutable_node()) {
    if (!n.domain().empty()) n.set_domain("elsewhere");
  }
  Tensor x({DType::kF32, Shape{1, 3, 5}});
  for (size_t i = 0; i < 15; ++i) x.mutable_as<float>()[i] = 0.5f * static_cast<float>(i) - 3;
  const auto ours = run_model(model, {x}), theirs = run_model(import_proto(foreign), {x});
  for (size_t k = 0; k < ours.size(); ++k) {
    const auto a = ours[k].to_doubles(), b = theirs[k].to_doubles();
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
  }
}

TEST(Export, IsDeterministicAndKeepsContentAndMetadata) {
  onnx::ModelProto proto = one_node("LeakyRelu");
  set_float(*proto.mutable_graph()->mutable_node(0), "alpha", 0.1f);
  Model model = import_proto(proto);
  metadata::set_classes(model, {"daisy", "tulip \"red\"", "rose\nwhite"});
  metadata::set_digest(model, metadata::kParent, sha256("parent"));
  const std::string bytes = export_model(model);
  EXPECT_EQ(bytes, export_model(model));
  const Model again = import_model(bytes);
  EXPECT_EQ(content_id(again), content_id(model));
  EXPECT_EQ(export_model(again), bytes);
  EXPECT_EQ(metadata::classes(again),
            (std::vector<std::string>{"daisy", "tulip \"red\"", "rose\nwhite"}));
  EXPECT_EQ(metadata::digest(again, metadata::kParent), sha256("parent"));
}

TEST(Export, NamesEveryNodeThatOnnxCannotExpress) {
  Model model = import_proto(one_node("Relu"));
  model.nodes.push_back({"ReluGrad", {"x", "y"}, {"g"}, {}});
  model.nodes.push_back({"SoftmaxCrossEntropy", {"x", "y", "g"}, {"l"}, {}});
  model.outputs = {"y"};
  EXPECT_THAT(export_refusal(model),
              AllOf(HasSubstr("ReluGrad"), HasSubstr("SoftmaxCrossEntropy")));
}

TEST(Export, RefusesMoreThanProtobufAllows) {
  Model model = import_proto(one_node("Relu"));
  const Tensor shared({DType::kF32, Shape{1 << 24}});
  for (int i = 0; i < 32; ++i) {
    model.outputs.push_back("w" + std::to_string(i));
    model.initialisers[model.outputs.back()] = shared;
  }
  EXPECT_THAT(export_refusal(model), HasSubstr("half precision"));
}

TEST(Export, PublishesTheFile) {
  MemoryFs fs;
  const Model model = import_proto(one_node("Relu"));
  ASSERT_TRUE(export_model(fs, "m.onnx", model).ok());
  EXPECT_EQ(content_id(import_model(fs, "m.onnx")), content_id(model));
}

TEST(Metadata, RefusesClassesThatAreNoListOfDistinctNames) {
  Model model;
  EXPECT_TRUE(metadata::classes(model).empty());
  for (const char* text : {"a\nb", "{\"0\": \"a\"}", "[1, 2]", "[\"a\", \"a\"]", "["}) {
    model.metadata[metadata::kClasses] = text;
    EXPECT_THROW(metadata::classes(model), Error) << text;
  }
  EXPECT_THROW(metadata::set_classes(model, {"a", "a"}), Error);
  EXPECT_THROW(metadata::set_classes(model, {"\xff"}), Error);
  model.metadata[metadata::kParent] = "no digest";
  EXPECT_THROW(metadata::digest(model, metadata::kParent), Error);
}

TEST(TensorFile, KeepsEveryDtype) {
  MemoryFs fs;
  for (int t = static_cast<int>(DType::kF32); t <= static_cast<int>(DType::kBool); ++t) {
    const std::vector<double> values = {0, 1, 1, 0, 1, 0};
    const Tensor tensor = Tensor::from_doubles({static_cast<DType>(t), Shape{2, 3}}, values);
    ASSERT_TRUE(write_tensor_file(fs, "t.pb", {"t", tensor}).ok());
    const NamedTensor back = read_tensor_file(fs, "t.pb").or_throw();
    EXPECT_EQ(back.name, "t");
    EXPECT_EQ(back.tensor.type(), tensor.type());
    EXPECT_TRUE(back.tensor.same_bytes(tensor));
  }
}

// The typed fields, which other writers use.
TEST(TensorFile, ReadsTypedData) {
  struct Case {
    int type;
    void (*fill)(onnx::TensorProto&);
  };
  const Case cases[] = {
      {onnx::TensorProto::FLOAT, [](onnx::TensorProto& t) { t.add_float_data(-2); }},
      {onnx::TensorProto::DOUBLE, [](onnx::TensorProto& t) { t.add_double_data(-2); }},
      {onnx::TensorProto::INT64, [](onnx::TensorProto& t) { t.add_int64_data(-2); }},
      {onnx::TensorProto::INT32, [](onnx::TensorProto& t) { t.add_int32_data(-2); }},
      {onnx::TensorProto::INT16, [](onnx::TensorProto& t) { t.add_int32_data(-2); }},
      {onnx::TensorProto::INT8, [](onnx::TensorProto& t) { t.add_int32_data(-2); }},
      {onnx::TensorProto::FLOAT16, [](onnx::TensorProto& t) { t.add_int32_data(0xc000); }},
      {onnx::TensorProto::BFLOAT16, [](onnx::TensorProto& t) { t.add_int32_data(0xc000); }},
      {onnx::TensorProto::UINT8, [](onnx::TensorProto& t) { t.add_int32_data(254); }},
      {onnx::TensorProto::UINT16, [](onnx::TensorProto& t) { t.add_int32_data(254); }},
      {onnx::TensorProto::UINT32, [](onnx::TensorProto& t) { t.add_uint64_data(254); }},
      {onnx::TensorProto::UINT64, [](onnx::TensorProto& t) { t.add_uint64_data(254); }},
      {onnx::TensorProto::BOOL, [](onnx::TensorProto& t) { t.add_int32_data(7); }},
  };
  for (const Case& c : cases) {
    onnx::TensorProto t;
    t.add_dims(1);
    t.set_data_type(c.type);
    c.fill(t);
    MemoryFs fs;
    ASSERT_TRUE(publish(fs, "t.pb", t.SerializeAsString()).ok());
    const double v = read_tensor_file(fs, "t.pb").or_throw().tensor.to_doubles().at(0);
    EXPECT_TRUE(v == -2 || v == 254 || (v == 1 && c.type == onnx::TensorProto::BOOL)) << c.type;
    t.add_dims(2);  // now one value is too few
    ASSERT_TRUE(publish(fs, "t.pb", t.SerializeAsString()).ok());
    EXPECT_EQ(read_tensor_file(fs, "t.pb").status().code(), Code::kCorrupt);
  }
}

}  // namespace
}  // namespace ndtrain
