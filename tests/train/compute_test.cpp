#include "framework/train/compute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

TEST(TrainingCompute, IsF32OnDevicesOfTheHostsMemoryWithAWord) {
  for (const Device* device : testing::host_devices()) {
    EXPECT_EQ(training_compute(DType::kF32, *device).dtype, DType::kF32);
    EXPECT_EQ(training_compute(DType::kF32, *device).why, "");
    for (const DType asked : {DType::kBF16, DType::kF16}) {
      const TrainingCompute c = training_compute(asked, *device);
      EXPECT_EQ(c.dtype, DType::kF32);
      EXPECT_THAT(c.why, ::testing::HasSubstr("--compute " + std::string(name_of(asked)) +
                                              ": trained in f32, since the " +
                                              device->backend().name() + " backend"));
    }
  }
}

}  // namespace
}  // namespace ndtrain
