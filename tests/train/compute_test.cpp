#include "framework/train/compute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

// Of this processor, or of what ONEDNN_MAX_CPU_ISA makes of it.
bool has_products_of_bf16() {
  const char* isa = std::getenv("ONEDNN_MAX_CPU_ISA");
  const std::string_view most = isa ? isa : "ALL";
  const bool allowed =
      most == "ALL" || most.starts_with("AVX512_CORE_BF16") || most.starts_with("AVX512_CORE_AMX");
  return allowed && __builtin_cpu_supports("avx512bf16");
}

TEST(TrainingCompute, IsWhatWasAskedForInF32) {
  for (const Device* device : testing::host_devices()) {
    EXPECT_EQ(training_compute(DType::kF32, *device).dtype, DType::kF32);
    EXPECT_EQ(training_compute(DType::kF32, *device).why, "");
  }
}

TEST(TrainingCompute, IsBf16OnHostsThatHaveProductsOfIt) {
  for (const Device* device : testing::host_devices()) {
    const TrainingCompute c = training_compute(DType::kBF16, *device);
    if (device->backend().name() == "onednn" && has_products_of_bf16()) {
      EXPECT_EQ(c.dtype, DType::kBF16);
      EXPECT_EQ(c.why, "");
      continue;
    }
    EXPECT_EQ(c.dtype, DType::kF32);
    EXPECT_THAT(c.why, HasSubstr("--compute bf16: trained in f32, since the " +
                                 device->backend().name() + " backend"));
  }
}

TEST(TrainingCompute, IsF32WithAWordWhereF16WasAskedForOnHosts) {
  for (const Device* device : testing::host_devices()) {
    const TrainingCompute c = training_compute(DType::kF16, *device);
    EXPECT_EQ(c.dtype, DType::kF32);
    EXPECT_THAT(c.why, HasSubstr("--compute f16: trained in f32, since the " +
                                 device->backend().name() + " backend"));
  }
}

}  // namespace
}  // namespace ndtrain
