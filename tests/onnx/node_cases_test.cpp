// Every model of ../shared/onnx-node-tests and ../shared/onnx-new-format on the interpreter, as it
// is and after a round trip through our own export, and on the plugins that need no hardware of
// their own.
#include <gtest/gtest.h>

#include <cstdlib>

#include "framework/core/fs.h"
#include "framework/onnx/export.h"
#include "framework/passes/passes.h"
#include "framework/runtime/executor.h"
#include "tests/onnx/node_case.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

const ImportOptions kOptions = {.external_data = true};

constexpr const char* kCases[] = {
#include "tests/onnx/node_cases.inc"
};

Model import_case(const std::string& directory) {
  return import_model(real_fs(), join(directory, "model.onnx"), kOptions);
}

std::vector<Tensor> run_on(const Device& device, const Graph& g, std::span<const Tensor> inputs) {
  const Plan plan(g, device);
  return Executor(plan).run(inputs);
}

// "" or what differs, as the graph is and as it is optimised.
std::string run_on_device(const std::string& directory, const Model& model, const Device& device) {
  std::string d = run_case(directory, model, [&](const Graph& g, std::span<const Tensor> inputs) {
    return run_on(device, g, inputs);
  });
  if (!d.empty()) return d;
  d = run_case(directory, model, [&](const Graph& g, std::span<const Tensor> inputs) {
    return run_on(device, optimize_for_inference(g), inputs);
  });
  return d.empty() ? d : "optimised: " + d;
}

class NodeCase : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!real_fs().exists(directory())) GTEST_SKIP() << directory() << " is absent";
  }
  static std::string directory() { return join(NDT_SHARED_DIR, GetParam()); }
};

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

std::string case_name(const ::testing::TestParamInfo<const char*>& info) {
  std::string name(name_of_path(info.param));
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Onnx, NodeCase, ::testing::ValuesIn(kCases), case_name);

TEST(NodeCases, AreAllListed) {
  std::vector<std::string> there;
  for (const char* group : {"onnx-new-format", "onnx-node-tests"}) {
    for (const std::string& directory : case_directories(join(NDT_SHARED_DIR, group))) {
      there.push_back(join(group, std::string(name_of_path(directory))));
    }
  }
  if (there.empty()) GTEST_SKIP() << NDT_SHARED_DIR << " is absent";
  EXPECT_EQ(there, std::vector<std::string>(std::begin(kCases), std::end(kCases)));
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
