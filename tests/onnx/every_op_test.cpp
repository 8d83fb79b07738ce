// Every op that the opset of our files has, on its own examples: written as a file and read again
// it computes the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/onnx/export.h"
#include "framework/onnx/own_functions.h"
#include "framework/runtime/interpreter.h"
#include "tests/onnx/model_proto.h"
#include "tests/ops/example_model.h"

namespace ndtrain {
namespace {

// An attribute that is a number is an f32 in a file.
bool near(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  return std::abs(a - b) <= 1e-6 * (1 + std::abs(b));
}

std::vector<Tensor> run(const ExampleModel& given, const Model& model) {
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
    const ExampleModel given = example_model(def, def.examples[i]);
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
    const bool there =
        def.facts.onnx <= kExportOpset || own_function_for({std::string(def.name), {}, {}, {}});
    if (def.facts.onnx > 0 && there && !def.reference_only) defs.push_back(&def);
  }
  return defs;
}

INSTANTIATE_TEST_SUITE_P(Onnx, EveryOp, testing::ValuesIn(of_onnx()),
                         [](const auto& c) { return std::string(c.param->name); });

}  // namespace
}  // namespace ndtrain
