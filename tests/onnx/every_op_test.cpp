// Every op that ONNX has, on its own examples: written as a file and read again it computes the
// same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/onnx/export.h"
#include "framework/runtime/interpreter.h"
#include "tests/onnx/model_proto.h"
#include "tests/ops/example_graph.h"

namespace ndtrain {
namespace {

struct OneNode {
  Model model;
  std::vector<Tensor> inputs;
};

OneNode model_of(const OpDef& def, const Example& example) {
  OneNode made;
  const ExampleGraph e = build_example(def, example);
  ModelNode node{std::string(def.name), {}, {}, example.attrs};
  for (size_t i = 0; i < example.inputs.size(); ++i) {
    const ExampleInput& in = example.inputs[i];
    const bool absent = in.type.dtype == DType::kNone;
    node.inputs.push_back(absent ? "" : "x" + std::to_string(i));
    if (absent) continue;
    const Tensor value = Tensor::from_doubles(in.type, e.values[i]);
    if (in.known) {
      made.model.initialisers[node.inputs[i]] = value;
      continue;
    }
    const Ints dims(in.type.shape.dims().begin(), in.type.shape.dims().end());
    made.model.inputs.push_back({node.inputs[i], in.type.dtype, dims});
    made.inputs.push_back(value);
  }
  for (size_t k = 0; k < e.outputs.size(); ++k) node.outputs.push_back("y" + std::to_string(k));
  made.model.outputs = node.outputs;
  made.model.nodes.push_back(std::move(node));
  return made;
}

// An attribute that is a number is an f32 in a file.
bool near(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  return std::abs(a - b) <= 1e-6 * (1 + std::abs(b));
}

std::vector<Tensor> run(const OneNode& given, const Model& model) {
  return interpret_outputs(bind(model, 1), given.inputs);
}

// "" where opset 17 cannot say it: what a later one added.
std::string exported(const Model& model) {
  try {
    return export_model(model);
  } catch (const Error& e) {
    if (std::string_view(e.what()).find("opset 17 has no ") == std::string_view::npos) {
      throw;
    }
    return "";
  }
}

class EveryOp : public testing::TestWithParam<const OpDef*> {};

TEST_P(EveryOp, StaysTheSameThroughExport) {
  const OpDef& def = *GetParam();
  int files = 0;
  for (size_t i = 0; i < def.examples.size(); ++i) {
    SCOPED_TRACE(describe(def, i));
    const OneNode given = model_of(def, def.examples[i]);
    const std::string file = exported(given.model);
    if (file.empty()) continue;
    ++files;
    const Model again = import_model(file);
    EXPECT_EQ(content_id(import_model(export_model(again))), content_id(again));
    const std::vector<Tensor> want = run(given, given.model), got = run(given, again);
    ASSERT_EQ(got.size(), want.size());
    for (size_t k = 0; k < want.size(); ++k) {
      EXPECT_EQ(got[k].type(), want[k].type());
      EXPECT_TRUE(std::ranges::equal(got[k].to_doubles(), want[k].to_doubles(), near)) << k;
    }
  }
  EXPECT_GT(files, 0);
}

std::vector<const OpDef*> of_onnx() {
  std::vector<const OpDef*> defs;
  for (const OpDef& def : all_ops()) {
    if (def.facts.onnx > 0 && !def.reference_only) defs.push_back(&def);
  }
  return defs;
}

INSTANTIATE_TEST_SUITE_P(Onnx, EveryOp, testing::ValuesIn(of_onnx()),
                         [](const auto& c) { return std::string(c.param->name); });

}  // namespace
}  // namespace ndtrain
