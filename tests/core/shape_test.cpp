#include "framework/core/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "framework/core/limits.h"

namespace ndtrain {
namespace {

using ::testing::ElementsAre;
using Dims = std::vector<int64_t>;

std::string text(const auto& x) {
  std::ostringstream os;
  os << x;
  return os.str();
}

TEST(Shape, AScalarHasOneElement) {
  const Shape s;
  EXPECT_EQ(s.rank(), 0);
  EXPECT_EQ(s.count(), 1);
  EXPECT_TRUE(s.strides().empty());
  EXPECT_EQ(text(s), "[]");
}

TEST(Shape, RankIsLimited) {
  for (int rank : {limits::kRank - 1, limits::kRank}) {
    EXPECT_EQ(Shape(Dims(static_cast<size_t>(rank), 2)).rank(), rank);
  }
  EXPECT_THROW(Shape(Dims(limits::kRank + 1, 1)), Error);
}

TEST(Shape, TheElementCountIsLimited) {
  EXPECT_EQ(Shape({limits::kElements - 1}).count(), limits::kElements - 1);
  EXPECT_EQ(Shape({1 << 20, 1 << 20}).count(), limits::kElements);
  EXPECT_THROW(Shape({limits::kElements + 1}), Error);
  EXPECT_THROW(Shape({(1 << 20) + 1, 1 << 20}), Error);
}

TEST(Shape, AProductThatWouldOverflowIsRefused) {
  const int64_t two32 = int64_t{1} << 32;
  EXPECT_THROW(Shape({two32, two32}), Error);
  EXPECT_THROW(Shape({two32, two32, two32, two32}), Error);
  EXPECT_THROW(Shape({INT64_MAX, 2}), Error);
}

TEST(Shape, AZeroExtentDoesNotHideExtentsThatOverflow) {
  EXPECT_EQ(Shape({0, limits::kElements}).count(), 0);
  EXPECT_THROW(Shape({0, limits::kElements + 1}), Error);
  EXPECT_THROW(Shape({limits::kElements, 0, 2}), Error);
}

TEST(Shape, NegativeExtentsAreRefused) {
  EXPECT_THROW(Shape({-1}), Error);
  EXPECT_THROW(Shape({2, INT64_MIN}), Error);
  EXPECT_THROW(Shape({0, -1}), Error);
}

TEST(Shape, IndexesCountFromEitherEnd) {
  const Shape s{2, 3, 4};
  EXPECT_EQ(s[0], 2);
  EXPECT_EQ(s[-1], 4);
  EXPECT_EQ(s[-3], 2);
  EXPECT_THROW(s[3], Error);
  EXPECT_THROW(s[-4], Error);
  EXPECT_THROW(Shape()[0], Error);
}

TEST(Shape, CountsAndStridesAreRowMajor) {
  const Shape s{2, 3, 4};
  EXPECT_EQ(s.count(), 24);
  EXPECT_EQ(s.count(1, 3), 12);
  EXPECT_EQ(s.count(1, 1), 1);
  EXPECT_EQ(s.count(3, 3), 1);
  EXPECT_THROW(s.count(2, 1), Error);
  EXPECT_THROW(s.count(0, 4), Error);
  EXPECT_THROW(s.count(-1, 2), Error);
  EXPECT_THAT(s.strides(), ElementsAre(12, 4, 1));
  EXPECT_THAT(Shape({5, 0, 2}).strides(), ElementsAre(0, 2, 1));
}

TEST(Shape, AnAxisIsInRangeOrNamesWhoAsked) {
  const Shape s{2, 3};
  EXPECT_EQ(s.axis(-2, "Softmax"), 0);
  EXPECT_EQ(s.axis(1, "Softmax"), 1);
  EXPECT_EQ(s.axis(2, "Flatten", true), 2);
  EXPECT_THROW(s.axis(3, "Flatten", true), Error);
  EXPECT_THROW(s.axis(INT64_MIN, "Softmax"), Error);
  EXPECT_THROW(Shape().axis(0, "Softmax"), Error);
  try {
    s.axis(2, "Softmax");
    FAIL() << "did not throw";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(),
                ::testing::AllOf(::testing::HasSubstr("Softmax"), ::testing::HasSubstr("[2,3]")));
  }
}

TEST(Shape, WithReplacesOneExtent) {
  EXPECT_EQ(Shape({2, 3}).with(0, 7), Shape({7, 3}));
  EXPECT_EQ(Shape({2, 3}).with(-1, 0), Shape({2, 0}));
  EXPECT_THROW(Shape({2, 3}).with(2, 1), Error);
  EXPECT_THROW(Shape({2, 3}).with(0, limits::kElements), Error);
}

TEST(Broadcast, FollowsNumpy) {
  EXPECT_EQ(broadcast({8, 1, 6, 1}, {7, 1, 5}, "Add"), Shape({8, 7, 6, 5}));
  EXPECT_EQ(broadcast({}, {2, 3}, "Add"), Shape({2, 3}));
  EXPECT_EQ(broadcast({1}, {0}, "Add"), Shape({0}));
  EXPECT_EQ(broadcast({2, 0}, {1}, "Add"), Shape({2, 0}));
}

TEST(Broadcast, RefusesWhatDoesNotFit) {
  EXPECT_THROW(broadcast({2}, {3}, "Add"), Error);
  EXPECT_THROW(broadcast({0}, {2}, "Add"), Error);
  // Each fits, the result does not.
  EXPECT_THROW(broadcast({limits::kElements, 1}, {1, 2}, "Add"), Error);
}

TEST(TensorType, KnowsItsBytesAndItsName) {
  const TensorType t{DType::kF16, {2, 3}};
  EXPECT_EQ(t.bytes(), 12u);
  EXPECT_EQ(text(t), "f16[2,3]");
  EXPECT_NE(t, (TensorType{DType::kF32, {2, 3}}));
  EXPECT_EQ((TensorType{DType::kF64, {limits::kElements}}.bytes()), size_t{1} << 43);
}

}  // namespace
}  // namespace ndtrain
