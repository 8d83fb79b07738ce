// Every model of ../shared/onnx-node-tests and ../shared/onnx-new-format on the interpreter, as it
// is and after a round trip through our own export.
#include <gtest/gtest.h>

#include <cstdlib>

#include "framework/core/fs.h"
#include "framework/onnx/export.h"
#include "tests/onnx/node_case.h"

namespace ndtrain {
namespace {

const ImportOptions kOptions = {.external_data = true};

// $NDTRAIN_NODE_TESTS adds a directory of further cases.
std::vector<std::string> all_cases() {
  std::vector<std::string> roots = {NDT_SHARED_DIR "/onnx-node-tests",
                                    NDT_SHARED_DIR "/onnx-new-format"};
  if (const char* more = std::getenv("NDTRAIN_NODE_TESTS")) roots.push_back(more);
  std::vector<std::string> all;
  for (const std::string& root : roots) {
    for (std::string& directory : case_directories(root)) all.push_back(std::move(directory));
  }
  return all;
}

class NodeCase : public testing::TestWithParam<std::string> {};

TEST_P(NodeCase, GivesOnnxsOutputs) {
  const Model model = import_model(real_fs(), join(GetParam(), "model.onnx"), kOptions);
  EXPECT_EQ(run_on_interpreter(GetParam(), model), "");
}

TEST_P(NodeCase, StaysTheSameThroughExport) {
  const Model model = import_model(real_fs(), join(GetParam(), "model.onnx"), kOptions);
  const Model again = import_model(export_model(model));
  EXPECT_EQ(content_id(again), content_id(model));
  EXPECT_EQ(run_on_interpreter(GetParam(), again), "");
}

std::string case_name(const testing::TestParamInfo<std::string>& info) {
  std::string name(name_of_path(info.param));
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Onnx, NodeCase, testing::ValuesIn(all_cases()), case_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NodeCase);

TEST(NodeCases, AreThere) {
  if (all_cases().empty()) GTEST_SKIP() << NDT_SHARED_DIR << " is absent";
  EXPECT_GE(all_cases().size(), 251u);
}

}  // namespace
}  // namespace ndtrain
