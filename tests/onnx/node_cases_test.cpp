// Every model of ../shared/onnx-node-tests and ../shared/onnx-new-format on the interpreter, as it
// is and after a round trip through our own export, and on the plugins that need no hardware of
// their own.
#include <cstdlib>

#include "framework/core/fs.h"
#include "framework/onnx/export.h"
#include "tests/onnx/node_case.h"
#include "tests/runtime/cpu_device.h"
#include "tests/support/paths.h"

namespace ndtrain {
namespace {

using NodeCase = NodeCaseTest;

TEST_P(NodeCase, GivesOnnxsOutputs) {
  EXPECT_EQ(run_on_interpreter(directory(), import_case(directory())), "");
}

TEST_P(NodeCase, StaysTheSameThroughExport) {
  const Model model = import_case(directory());
  const Model again = import_model(export_model(model));
  EXPECT_EQ(content_id(again), content_id(model));
  EXPECT_EQ(run_on_interpreter(directory(), again), "");
}

TEST_P(NodeCase, GivesOnnxsOutputsOnEveryCpuPlugin) {
  const Model model = import_case(directory());
  for (const Device* device : ndtrain::testing::host_devices()) {
    SCOPED_TRACE(device->backend().name());
    EXPECT_EQ(run_on_device(directory(), model, *device), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Onnx, NodeCase, each_listed_case(), case_name);

TEST(NodeCases, AreAllListed) {
  std::vector<std::string> there;
  for (const char* group : {"onnx-new-format", "onnx-node-tests"}) {
    for (const std::string& directory : case_directories(join(support::shared_path(), group))) {
      there.push_back(join(group, std::string(name_of_path(directory))));
    }
  }
  if (there.empty()) GTEST_SKIP() << support::shared_path() << " is absent";
  EXPECT_EQ(there, std::vector<std::string>(listed_cases().begin(), listed_cases().end()));
}

TEST(NodeCases, OfADirectoryThatTheEnvironmentNames) {
  const char* more = std::getenv("NDT_NODE_TESTS");
  if (!more) GTEST_SKIP() << "$NDT_NODE_TESTS names none";
  for (const std::string& directory : case_directories(more)) {
    SCOPED_TRACE(directory);
    EXPECT_NO_THROW(EXPECT_EQ(run_on_interpreter(directory, import_case(directory)), ""));
  }
}

}  // namespace
}  // namespace ndtrain
