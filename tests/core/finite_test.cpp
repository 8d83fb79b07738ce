#include "framework/core/finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace ndtrain {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

bool finite(DType type, const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * size_of(type) + 1);
  store(values.data(), values.size(), type, bytes.data());
  if (!all_finite(type, std::span(bytes).first(bytes.size() - 1))) return false;
  std::copy_backward(bytes.begin(), bytes.end() - 1, bytes.end());  // and where nothing is aligned
  return all_finite(type, std::span(bytes).subspan(1));
}

TEST(Finite, AreAllNumbersButNanAndInfinityOfEveryType) {
  for (const DType type : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    EXPECT_TRUE(finite(type, {}));
    EXPECT_TRUE(finite(type, {0, -0.0, 1, -1, 65504, -65504, 6e-8})) << name_of(type);
    for (const double bad : {kInfinity, -kInfinity, kNotANumber, -kNotANumber}) {
      for (const size_t at : {size_t{0}, size_t{4095}, size_t{4096}, size_t{9999}}) {
        std::vector<double> values(10'000, 0.5);
        EXPECT_TRUE(finite(type, values));
        values[at] = bad;
        EXPECT_FALSE(finite(type, values)) << name_of(type) << " " << at;
      }
    }
  }
  EXPECT_FALSE(finite(DType::kF16, {65520})) << "that is Inf there";
  EXPECT_TRUE(finite(DType::kF64, {std::numeric_limits<double>::max()}));
  for (const DType type : {DType::kU8, DType::kI8, DType::kI32, DType::kI64, DType::kBool}) {
    EXPECT_TRUE(finite(type, {0, 1})) << name_of(type);
  }
}

}  // namespace
}  // namespace ndtrain
