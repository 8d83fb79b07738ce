// SqueezeNet 1.1 with its real weights: PyTorch's logits, and its known accuracy on a sample of
// ImageNet (../shared/README.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/onnx/test_data.h"
#include "framework/passes/inference.h"
#include "framework/runtime/executor.h"
#include "ndp/jobs/evaluate_photos.h"
#include "tests/runtime/cpu_device.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
namespace {

const std::string kModel = support::shared_path("/models/squeezenet1_1.onnx");
const std::string kGolden = support::shared_path("/models/squeezenet1_1_golden");
const std::string kSample = support::shared_path("/data/imagenet-sample");

class SqueezeNet : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& path : {kModel, kGolden, kSample}) {
      if (!real_fs().exists(path)) GTEST_SKIP() << path << " is absent";
    }
  }
};

TEST_F(SqueezeNet, GivesPyTorchsLogitsOnEveryCpuPlugin) {
  const Model model = import_model(real_fs(), kModel);
  const TestData golden = read_test_data(real_fs(), kGolden, model).or_throw();
  const std::vector<double> want = golden.outputs.at(0).to_doubles();
  double largest = 0;
  for (const double v : want) largest = std::max(largest, std::abs(v));
  const Graph g = inference_graph(model, golden.batch);
  for (const Device* device : testing::host_devices()) {
    SCOPED_TRACE(device->backend().name());
    const Plan plan(g, *device);
    const std::vector<double> got = Executor(plan).run(golden.inputs).at(0).to_doubles();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], 1e-5 * largest) << "logit " << i;
    }
  }
}

TEST_F(SqueezeNet, TellsThreeInFiveOfTheSample) {
  const ModelFile model = load_model(real_fs(), kModel);
  ASSERT_FALSE(model.preprocess_declared);  // 224 of 256, ImageNet's mean, as it was trained
  const support::TemporaryDirectory cache;
  const auto catalogue = open_catalogue(real_fs(), cache.path(), kSample);
  NoProgress quiet;
  const LabelledPhotos labels =
      read_labels_csv(real_fs(), kSample + "/labels.csv", kSample).or_throw();
  const PhotoSet set = hash_photos(real_fs(), *catalogue, labels, quiet);
  const PhotoEvaluation e =
      evaluate_photos(model, *testing::host_devices().back(), real_fs(), set, 16, quiet);
  EXPECT_EQ(e.photos, 500);
  EXPECT_EQ(e.quarantined, 0);
  // As of photos that PIL's ImageCms has turned to sRGB; 0.600 where profiles are left aside.
  EXPECT_DOUBLE_EQ(e.top1, 0.602);
  EXPECT_DOUBLE_EQ(e.top5, 0.820);
}

}  // namespace
}  // namespace ndtrain::ndp
