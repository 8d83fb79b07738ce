#include "framework/runtime/layout.h"

#include <gtest/gtest.h>

namespace ndtrain {
namespace {

ndt_tensor_type row_major(Shape shape) { return abi_type({DType::kF32, std::move(shape)}); }

ndt_tensor_type blocked(const Shape& shape, int32_t block) {
  ndt_tensor_type t = row_major(shape);
  t.channel_block = block;
  t.strides[3] = block;
  t.strides[2] = t.dims[3] * t.strides[3];
  t.strides[1] = t.dims[2] * t.strides[2];
  t.strides[0] = (t.dims[1] + block - 1) / block * t.strides[1];
  return t;
}

ndt_tensor_type channels_last(const Shape& shape) {
  ndt_tensor_type t = row_major(shape);
  t.strides[1] = 1;
  t.strides[3] = t.dims[1];
  t.strides[2] = t.dims[3] * t.strides[3];
  return t;
}

TEST(Layout, DimsOfOneElementDoNotMatter) {
  EXPECT_TRUE(lie_alike(row_major({2, 32, 1, 1}), blocked({2, 32, 1, 1}, 16)));
  EXPECT_TRUE(lie_alike(row_major({2, 32, 1, 1}), channels_last({2, 32, 1, 1})));
  EXPECT_TRUE(lie_alike(row_major({2, 1, 5, 7}), channels_last({2, 1, 5, 7})));
  EXPECT_FALSE(lie_alike(row_major({2, 32, 1, 2}), blocked({2, 32, 1, 2}, 16)));
  EXPECT_FALSE(lie_alike(row_major({2, 32, 1, 2}), channels_last({2, 32, 1, 2})));
  EXPECT_FALSE(lie_alike(blocked({2, 32, 3, 2}, 8), blocked({2, 32, 3, 2}, 16)));
}

TEST(Layout, ABlockThatIsNotFullIsNotRowMajorEvenUnderOnePixel) {
  EXPECT_FALSE(is_row_major(blocked({2, 24, 1, 1}, 16)));
  EXPECT_TRUE(is_row_major(blocked({2, 24, 1, 1}, 8)));
  EXPECT_FALSE(is_row_major(blocked({1, 3, 1, 1}, 8)));
}

TEST(Layout, BytesReachFromTheFirstElementToTheLastWithPaddingAndGaps) {
  EXPECT_EQ(extent_bytes(row_major({2, 3, 4, 5})), 2U * 3 * 4 * 5 * 4);
  EXPECT_EQ(extent_bytes(channels_last({2, 3, 4, 5})), 2U * 3 * 4 * 5 * 4);
  EXPECT_EQ(extent_bytes(blocked({2, 3, 4, 5}, 16)), 2U * 16 * 4 * 5 * 4);
  EXPECT_EQ(extent_bytes(blocked({2, 33, 4, 5}, 16)), 2U * 48 * 4 * 5 * 4);
  EXPECT_EQ(extent_bytes(row_major({0, 3, 4, 5})), 0U);
  EXPECT_EQ(extent_bytes(row_major({})), 4U);
  ndt_tensor_type gaps = row_major({2, 3, 4, 5});
  gaps.strides[0] = 100;
  EXPECT_EQ(extent_bytes(gaps), (100U + 60) * 4);
}

}  // namespace
}  // namespace ndtrain
