// Every op that ONNX has, on its own examples: written as a file of each opset and read again it
// computes the same, or the opset that would say it is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "framework/onnx/export.h"
#include "framework/onnx/onnx_model.h"
#include "framework/runtime/interpreter.h"
#include "tests/onnx/model_proto.h"
#include "tests/ops/example_model.h"
#include "tests/support/paths.h"

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

// The file, or "" where the opset cannot say it.
std::string exported(const Model& model, int opset) {
  try {
    return export_model(model, {.opset = opset});
  } catch (const Error& e) {
    const std::string refused = "opset " + std::to_string(opset) + " has no ";
    if (std::string_view(e.what()).find(refused) == std::string_view::npos) throw;
    return "";
  }
}

void expect_same(const ExampleModel& given, const std::string& file) {
  const Model again = import_model(file);
  EXPECT_EQ(content_id(import_model(export_model(again))), content_id(again));
  const std::vector<Tensor> want = run(given, given.model), got = run(given, again);
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < want.size(); ++k) {
    EXPECT_EQ(got[k].type(), want[k].type());
    EXPECT_TRUE(std::ranges::equal(got[k].to_doubles(), want[k].to_doubles(), near)) << k;
  }
}

// golden/first_opsets.txt: "Resize 3 19" for an example that opsets before 19 cannot say; 0 for one
// that none can. What is not listed is said by all that are written.
std::map<std::pair<std::string, size_t>, int> first_opsets() {
  std::ifstream in(support::source_path("/tests/onnx/golden/first_opsets.txt"));
  std::map<std::pair<std::string, size_t>, int> first;
  std::string op;
  size_t example = 0;
  for (int opset = 0; in >> op >> example >> opset;) first[{op, example}] = opset;
  EXPECT_FALSE(first.empty());
  return first;
}

class EveryOp : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(EveryOp, StaysTheSameThroughExportAtEveryOpset) {
  const OpDef& def = *GetParam();
  const auto listed = first_opsets();
  for (size_t i = 0; i < def.examples.size(); ++i) {
    const ExampleModel given = example_model(def, def.examples[i]);
    int first = 0;
    for (int opset = kLeastExportOpset; opset <= kMaxOpset; ++opset) {
      SCOPED_TRACE(describe(def, i) + " at opset " + std::to_string(opset));
      std::string file;
      try {
        file = exported(given.model, opset);
      } catch (const Error& e) {
        EXPECT_THAT(e.what(), ::testing::HasSubstr("no opset from 17 on has"));
        continue;
      }
      EXPECT_TRUE(first == 0 || !file.empty()) << "an earlier opset can say it";
      if (file.empty()) continue;
      if (first == 0) first = opset;
      expect_same(given, file);
    }
    const auto it = listed.find({std::string(def.name), i});
    EXPECT_EQ(first, it == listed.end() ? kLeastExportOpset : it->second)
        << def.name << " " << i << " " << first;
    if (first > 0) {
      EXPECT_EQ(export_model(given.model), exported(given.model, first));
    }
  }
}

std::vector<const OpDef*> of_onnx() {
  std::vector<const OpDef*> defs;
  for (const OpDef& def : all_ops()) {
    if (def.facts.onnx > 0 && !def.reference_only) defs.push_back(&def);
  }
  return defs;
}

INSTANTIATE_TEST_SUITE_P(Onnx, EveryOp, ::testing::ValuesIn(of_onnx()),
                         [](const auto& c) { return std::string(c.param->name); });

}  // namespace
}  // namespace ndtrain
