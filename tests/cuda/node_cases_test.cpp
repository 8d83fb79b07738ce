// The ONNX project's node cases of ../shared on the cuda plugin, which refuses none of them: it has
// no other plugin to leave a node to.
#include <memory>

#include "tests/onnx/node_case.h"

namespace ndtrain {
namespace {

class CudaNodeCase : public NodeCaseTest {
 protected:
  static void SetUpTestSuite() {
    device_ = std::make_unique<Device>(Backend::find("cuda"), DeviceOptions{.deterministic = true});
  }
  static void TearDownTestSuite() { device_.reset(); }

  static inline std::unique_ptr<Device> device_;  // to open it takes long
};

TEST_P(CudaNodeCase, GivesOnnxsOutputs) {
  EXPECT_EQ(run_on_device(directory(), import_case(directory()), *device_), "");
}

INSTANTIATE_TEST_SUITE_P(Onnx, CudaNodeCase, each_listed_case(), case_name);

}  // namespace
}  // namespace ndtrain
