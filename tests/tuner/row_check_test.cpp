#include "tuner/ingest/row_check.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "framework/core/coding.h"
#include "framework/core/dtype.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

template <typename T>
std::string raw_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST(RowCheck, FeaturesAreNumbersInEveryOutputOfEveryRow) {
  const RowCheck check =
      finite_features({{DType::kF32, {1, 2}}, {DType::kF16, {1, 3}}, {DType::kU8, {1, 4}}});
  const uint16_t half = f16_from_f32(1), inf = f16_from_f32(HUGE_VALF);
  const std::string good =
      raw_bytes<float>({1, -2}) + raw_bytes<uint16_t>({half, half, half}) + "\xff\xff\xff\xff";
  EXPECT_EQ(check(good), "");
  EXPECT_EQ(check(good + good), "") << "a sample has several rows";
  const std::string nan = raw_bytes<float>({1, std::nanf("")}) + good.substr(2 * sizeof(float));
  const std::string infinite = good.substr(0, 12) + raw_bytes<uint16_t>({inf}) + good.substr(14);
  for (const std::string& bad : {nan, infinite, good + nan, good + infinite}) {
    EXPECT_EQ(check(bad), "a feature is NaN or Inf");
  }
  EXPECT_EQ(finite_features({})(good), "") << "rows that are no features";
}

TEST(RowCheck, LabelsAreClassesThatThereAreWithScoresThatAreNumbers) {
  const RowCheck check = known_classes(3);
  const auto row = [](uint32_t id, float score) {
    return raw_bytes<uint32_t>({id, std::bit_cast<uint32_t>(score)});
  };
  EXPECT_EQ(check(row(2, 0.5F) + row(0, 0.25F)), "");
  for (const std::string& bad : {row(3, 0.5F), row(UINT32_MAX, 0.5F), row(0, std::nanf("")),
                                 row(0, 0.5F) + row(1, HUGE_VALF)}) {
    EXPECT_NE(check(bad), "");
  }
}

}  // namespace
}  // namespace ndtrain::tuner
