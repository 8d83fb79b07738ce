// Training in bf16 on the host's processor: by no slow path, and with the same bytes however often
// it is broken off.
#include <gtest/gtest.h>

#include "framework/core/log.h"
#include "framework/runtime/executor.h"
#include "framework/testing/memory_fs.h"
#include "framework/train/head.h"
#include "framework/train/random_rows.h"
#include "framework/train/step_graph.h"
#include "framework/train/trainer.h"
#include "models/zoo.h"
#include "tests/runtime/cpu_device.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

constexpr int64_t kClasses = 10, kRows = 4;

Model small(std::string_view network) {
  return build_model(network, {.classes = kClasses, .img_size = 64, .seed = 1});
}

class Bf16Step : public ::testing::TestWithParam<const char*> {};

TEST_P(Bf16Step, TakesNoPlainLoopsOnAnyHostDevice) {
  const Model m = small(GetParam());
  const StepGraph step =
      make_step_graph(bind(m, kRows), trainable_parameters(m, "none"), 0, DType::kBF16);
  for (const Device* device : testing::host_devices()) {
    const support::TemporaryDirectory directory;
    log::to_file(directory.at("log"));
    const Plan plan(step.graph, *device, {.bound_params = bound_params(step)});
    log::to_file("");
    EXPECT_EQ(real_fs().read(directory.at("log")).or_throw(), "") << device->backend().name();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Bf16Step,
                         ::testing::Values("mobilenet_v2", "resnet18", "resnet50", "squeezenet1_1",
                                           "tinynet", "vit_b_16"),
                         [](const auto& p) { return std::string(p.param); });

std::string bytes_of(const Checkpoint& c) {
  MemoryFs fs;
  save_checkpoint(fs, "/c", c).or_throw();
  return fs.read("/c").or_throw();
}

TEST(Bf16Training, StoppedAndResumedGivesTheSameBytesAndKeepsWeightsOfF32) {
  const Model m = small("resnet18");
  const TrainerConfig config{.epochs = 1, .batch = kRows, .compute = DType::kBF16, .seed = 3};
  const std::vector<std::string> names = trainable_parameters(m, "none");
  for (const Device* device : testing::host_devices()) {
    TensorDataset rows = random_rows(m, 3 * kRows, 7);
    EpochResult r;
    Trainer whole(m, names, *device, config);
    ASSERT_TRUE(whole.train_epoch(rows, r));
    Trainer first(m, names, *device, config);
    first.train_epoch(rows, r, [](int64_t done, int64_t) { return done < 2; });
    const Checkpoint at_two = first.checkpoint();
    Trainer second(m, names, *device, config);
    second.restore(at_two);
    ASSERT_TRUE(second.train_epoch(rows, r));
    EXPECT_TRUE(bytes_of(second.checkpoint()) == bytes_of(whole.checkpoint()))
        << device->backend().name();
    for (const std::string& name : names) {
      EXPECT_EQ(whole.model().initialisers.at(name).type().dtype, DType::kF32) << name;
    }
  }
}

}  // namespace
}  // namespace ndtrain
