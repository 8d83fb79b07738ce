#include "framework/core/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "framework/core/memory.h"
#include "tests/support/sanitizers.h"

namespace ndtrain {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(Tensor, IsAbsentUntilItHasAType) {
  const Tensor t;
  EXPECT_FALSE(t.defined());
  EXPECT_EQ(t.bytes(), 0u);
  EXPECT_THROW(t.as<float>(), Error);
  EXPECT_THROW(t.to_doubles(), Error);
  EXPECT_THROW(t.to_ints(), Error);
  EXPECT_THROW(t.reshaped({}), Error);
  EXPECT_THROW(Tensor({DType::kNone, {}}), Error);
}

TEST(Tensor, StartsAsAlignedZeros) {
  for (int64_t n : {1, 3, 1000, 100'000}) {
    const Tensor t({DType::kF32, {n}});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data()) % 64, 0u);
    EXPECT_THAT(t.as<float>(), Each(0.0f));
  }
}

TEST(Tensor, AnEmptyOneIsStillDefined) {
  const Tensor t({DType::kF32, {0, 3}});
  EXPECT_TRUE(t.defined());
  EXPECT_EQ(t.bytes(), 0u);
  EXPECT_TRUE(t.to_doubles().empty());
  EXPECT_TRUE(t.same_bytes(Tensor({DType::kF32, {0, 3}})));
  EXPECT_TRUE(Tensor::i64({}).to_ints().empty());
}

TEST(Tensor, CopiesShareTheBytes) {
  Tensor a = Tensor::of<float>(DType::kF32, {2}, {1, 2});
  const Tensor b = a;
  const Tensor c = a.reshaped({2, 1});
  a.mutable_as<float>()[0] = 5;
  EXPECT_EQ(b.as<float>()[0], 5);
  EXPECT_EQ(c.as<float>()[0], 5);
  EXPECT_EQ(c.shape(), Shape({2, 1}));
  EXPECT_THROW(a.reshaped({3}), Error);
}

TEST(Tensor, RowsShareTheBytes) {
  Tensor t = Tensor::of<float>(DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor part = t.rows(1, 2);
  EXPECT_EQ(part.shape(), Shape({2, 2}));
  t.mutable_as<float>()[2] = 7;
  EXPECT_EQ(part.to_doubles(), (std::vector<double>{7, 4, 5, 6}));
  EXPECT_EQ(t.rows(3, 0).bytes(), 0U);
  EXPECT_THROW(t.rows(2, 2), Error);
  EXPECT_THROW(t.rows(-1, 1), Error);
  EXPECT_THROW(Tensor::of<float>(DType::kF32, {}, {1}).rows(0, 1), Error);
}

TEST(Tensor, RefusesDataOfAnotherSize) {
  EXPECT_THROW((Tensor::of<float>(DType::kF32, {3}, {1, 2})), Error);
  EXPECT_THROW((Tensor::of<float>(DType::kF16, {2}, {1, 2})), Error);
  EXPECT_THROW(Tensor::from_doubles({DType::kF32, {2}}, std::vector<double>{1}), Error);
  EXPECT_THROW(Tensor({DType::kF64, {2}}).as<float>(), Error);
  EXPECT_THROW(Tensor({DType::kF16, {2}}).mutable_as<float>(), Error);
}

TEST(Tensor, ConvertsThroughDoubles) {
  const Tensor t = Tensor::from_doubles({DType::kI8, {3}}, std::vector<double>{1.9, -1.9, 200});
  EXPECT_THAT(t.as<int8_t>(), ElementsAre(1, -1, -56));
  EXPECT_THAT(t.to_doubles(), ElementsAre(1, -1, -56));
  EXPECT_THAT(t.to_ints(), ElementsAre(1, -1, -56));
}

TEST(Tensor, IntegersComeBackExact) {
  const std::vector<int64_t> limits = {INT64_MAX, INT64_MIN, (int64_t{1} << 53) + 1};
  EXPECT_EQ(Tensor::i64(limits).to_ints(), limits);
  EXPECT_THAT(Tensor::of<uint64_t>(DType::kU64, {1}, {INT64_MAX}).to_ints(),
              ElementsAre(INT64_MAX));
  EXPECT_THROW((Tensor::of<uint64_t>(DType::kU64, {1}, {uint64_t{1} << 63}).to_ints()), Error);
  EXPECT_THAT((Tensor::of<uint32_t>(DType::kU32, {1}, {UINT32_MAX}).to_ints()),
              ElementsAre(UINT32_MAX));
  EXPECT_THAT((Tensor::of<uint8_t>(DType::kBool, {2}, {0, 7}).to_ints()), ElementsAre(0, 1));
  EXPECT_THROW(Tensor({DType::kF32, {1}}).to_ints(), Error);
}

TEST(Tensor, SameBytesMeansTheTypeToo) {
  const Tensor a = Tensor::of<float>(DType::kF32, {2}, {1, 2});
  EXPECT_TRUE(a.same_bytes(Tensor::of<float>(DType::kF32, {2}, {1, 2})));
  EXPECT_FALSE(a.same_bytes(Tensor::of<float>(DType::kF32, {2}, {1, 3})));
  EXPECT_FALSE(a.same_bytes(a.reshaped({1, 2})));
  EXPECT_FALSE(a.same_bytes(Tensor()));
  EXPECT_TRUE(Tensor().same_bytes(Tensor()));
  // -0 and 0 are equal numbers of different bytes.
  EXPECT_FALSE((Tensor::of<float>(DType::kF32, {}, {0.0f})
                    .same_bytes(Tensor::of<float>(DType::kF32, {}, {-0.0f}))));
}

// The system would promise it, and end the process that takes it.
TEST(Tensor, MoreThanThisProcessMayUseIsRefusedAtOnce) {
  ASSERT_GT(usable_memory(), int64_t{64} << 20);
  try {
    const Tensor t({DType::kU8, {usable_memory() + 1}});
    FAIL() << "it was taken";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(),
                ::testing::HasSubstr("this process may use " + std::to_string(usable_memory())));
  }
}

TEST(Tensor, MoreThanTheMachineHasIsAnError) {
  if (support::under_sanitizer()) GTEST_SKIP() << "sanitizers end the process instead";
  EXPECT_THROW(Tensor({DType::kF64, {limits::kElements}}), Error);
}

}  // namespace
}  // namespace ndtrain
