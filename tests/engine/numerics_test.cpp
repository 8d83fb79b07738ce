#include "ndp/engine/numerics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/runtime/cpu_device.h"

namespace ndtrain::ndp {
namespace {

using ::testing::HasSubstr;

constexpr size_t kValues = 256;

// Values of standard deviation 1 or so.
std::vector<double> values() {
  std::vector<double> v(kValues);
  for (size_t i = 0; i < kValues; ++i) v[i] = std::sqrt(2) * std::sin(static_cast<double>(i));
  return v;
}

std::vector<std::byte> row(const std::vector<double>& values, DType type) {
  std::vector<std::byte> bytes(values.size() * size_of(type));
  store(values.data(), values.size(), type, bytes.data());
  return bytes;
}

NumericsCheck check(DType type, const std::vector<double>& theirs) {
  NumericsCheck c({{type, {1, static_cast<int64_t>(kValues)}}});
  c.add(row(theirs, type), row(values(), type));
  return c;
}

TEST(NumericsCheck, EqualFeaturesDoNotDifferAndNoneProveNothing) {
  EXPECT_EQ(check(DType::kF32, values()).difference(), 0);
  EXPECT_TRUE(check(DType::kF32, values()).passed());
  EXPECT_FALSE(NumericsCheck({{DType::kF32, {1, 4}}}).passed());
}

TEST(NumericsCheck, OneValueDecidesAtTheTolerance) {
  for (const double share : {0.5, 0.9, 1.1, 2.0}) {
    std::vector<double> theirs = values();
    theirs[17] -= share * kNumericsTolerance;
    const NumericsCheck c = check(DType::kF32, theirs);
    EXPECT_NEAR(c.difference(), share * kNumericsTolerance, 0.02 * kNumericsTolerance);
    EXPECT_EQ(c.passed(), share < 1) << share;
  }
}

TEST(NumericsCheck, HalvesThatRoundAwayFromEachOtherPassAndTwoStepsDoNot) {
  std::vector<double> v = values();
  const auto largest = static_cast<size_t>(std::ranges::max_element(v) - v.begin());
  ASSERT_GT(v[largest], 1.0);
  const double step = 0x1p-10;  // of halves in [1, 2): nearly the tolerance by itself
  const double rounded_value = rounded(v[largest], DType::kF16);
  for (const int steps : {1, 2, 3}) {
    std::vector<double> theirs = v;
    theirs[largest] = rounded_value - steps * step;
    const NumericsCheck c = check(DType::kF16, theirs);
    EXPECT_NEAR(c.difference(), (steps - 1) * step, 0.03 * kNumericsTolerance) << steps;
    EXPECT_EQ(c.passed(), steps < 3) << steps;
  }
}

TEST(NumericsCheck, EachOutputIsMeasuredByItsOwnDeviation) {
  NumericsCheck c({{DType::kF32, {1, 256}}, {DType::kF32, {1, 256}}});
  std::vector<double> small = values(), large = values();
  for (double& x : small) x *= 1e-3;
  for (double& x : large) x *= 1e3;
  std::vector<std::byte> ours = row(large, DType::kF32), theirs = ours;
  small[3] += 1e-4;  // a tenth of its output's deviation, nothing beside the other's
  const std::vector<std::byte> wrong = row(small, DType::kF32);
  small[3] -= 1e-4;
  const std::vector<std::byte> right = row(small, DType::kF32);
  ours.insert(ours.end(), right.begin(), right.end());
  theirs.insert(theirs.end(), wrong.begin(), wrong.end());
  c.add(theirs, ours);
  EXPECT_NEAR(c.difference(), 0.1, 0.01);
}

TEST(NumericsCheck, WhatIsNoNumberOrDiffersFromAConstantFails) {
  std::vector<double> theirs = values();
  theirs[0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(check(DType::kF32, theirs).passed());
  theirs[0] = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(check(DType::kF16, theirs).passed());

  NumericsCheck constant({{DType::kF32, {1, 2}}});
  constant.add(row({1, 1}, DType::kF32), row({1, 1}, DType::kF32));
  EXPECT_TRUE(constant.passed());
  constant.add(row({1, 1.1}, DType::kF32), row({1, 1}, DType::kF32));
  EXPECT_FALSE(constant.passed());
}

TEST(FeatureNumerics, NamesTheBackendThisProgramAndItsDecoder) {
  const std::string id = feature_numerics(testing::cpu());
  EXPECT_THAT(id, HasSubstr(testing::cpu().numerics()));
  EXPECT_THAT(id, HasSubstr("ndtrain "));
  EXPECT_THAT(id, HasSubstr("libjpeg"));
}

}  // namespace
}  // namespace ndtrain::ndp
