// Models that ONNX Runtime's quantizer and optimizer wrote, and operators of its domain, against
// its outputs (golden/onnx_runtime, by tools/golden/onnx_runtime.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/fs.h"
#include "framework/onnx/export.h"
#include "framework/onnx/onnx_model.h"
#include "framework/onnx/test_data.h"
#include "framework/passes/passes.h"
#include "framework/runtime/executor.h"
#include "framework/runtime/interpreter.h"
#include "tests/onnx/node_case.h"
#include "tests/runtime/cpu_device.h"
#include "tests/support/paths.h"

namespace ndtrain {
namespace {

std::vector<std::string> cases() {
  return case_directories(support::source_path("/tests/onnx/golden/onnx_runtime"));
}

// Bytes may be rounded the other way: one step, and what becomes of one in a network of them.
double tolerance(const std::string& name, DType type) {
  if (!is_float(type)) return 1;
  if (name.starts_with("qoperator")) return 0.01;
  return name.starts_with("transformer_dynamic") ? 0.05 : 2e-5;
}

class OnnxRuntime : public ::testing::TestWithParam<std::string> {
 protected:
  static std::string name() { return std::string(name_of_path(GetParam())); }
  static Model model() { return import_case(GetParam()); }

  static void expect_outputs(const Model& model, const RunGraph& run) {
    const TestData data =
        read_test_data(real_fs(), join(GetParam(), "test_data_set_0"), model).or_throw();
    const std::vector<Tensor> got = run(ndtrain::bind(model, data.batch, data.known), data.inputs);
    ASSERT_EQ(got.size(), data.outputs.size());
    for (size_t k = 0; k < got.size(); ++k) {
      ASSERT_EQ(got[k].type(), data.outputs[k].type());
      const std::vector<double> a = got[k].to_doubles(), b = data.outputs[k].to_doubles();
      const double most = tolerance(name(), got[k].type().dtype);
      for (size_t i = 0; i < b.size(); ++i) ASSERT_NEAR(a[i], b[i], most) << k << " " << i;
    }
  }
};

TEST_P(OnnxRuntime, GivesItsOutputs) { expect_outputs(model(), interpret_outputs); }

TEST_P(OnnxRuntime, GivesItsOutputsOnEveryCpuPlugin) {
  for (const Device* device : ndtrain::testing::host_devices()) {
    SCOPED_TRACE(device->backend().name());
    expect_outputs(model(), [&](const Graph& g, std::span<const Tensor> inputs) {
      const Plan plan(optimize_for_inference(g), *device);
      return Executor(plan).run(inputs);
    });
  }
}

TEST_P(OnnxRuntime, IsExportedAsOnnxsOwnOperators) {
  for (const int opset : {kLeastExportOpset, kMaxOpset}) {
    const Model again = import_model(export_model(model(), {.opset = opset}));
    EXPECT_EQ(content_id(again), content_id(model())) << opset;
    expect_outputs(again, interpret_outputs);
  }
}

INSTANTIATE_TEST_SUITE_P(Onnx, OnnxRuntime, ::testing::ValuesIn(cases()),
                         [](const auto& c) { return std::string(name_of_path(c.param)); });

TEST(OnnxRuntimeCases, AreThere) { EXPECT_EQ(cases().size(), 41U); }

}  // namespace
}  // namespace ndtrain
