#include "ndp/engine/batch_growth.h"

#include <gtest/gtest.h>

#include <functional>

namespace ndtrain::ndp {
namespace {

// What a run of many photos comes to where a photo takes as long as `photo_s` says for its batch.
struct Sizes {
  int64_t first, most;
};
int64_t settled(Sizes sizes, const std::function<double(int64_t)>& photo_s) {
  BatchGrowth growth(sizes.first, sizes.most);
  for (int i = 0; i < 40; ++i) {
    const int64_t n = growth.batch();
    growth.took(n, static_cast<double>(n) * photo_s(n));
  }
  return growth.batch();
}

TEST(BatchGrowth, GoesOnWhileLargerBatchesAreFaster) {
  const auto slower_by_a_tenth = [](int64_t n) {
    return n >= 32 ? 1.0 : 1.0 + 3.2 / static_cast<double>(n);
  };
  EXPECT_EQ(settled({8, 256}, slower_by_a_tenth), 32);
}

TEST(BatchGrowth, EndsAtTheLargestSize) {
  const auto faster = [](int64_t n) { return 1.0 / static_cast<double>(n); };
  EXPECT_EQ(settled({8, 32}, faster), 32);
  EXPECT_EQ(settled({8, 12}, faster), 12);
}

TEST(BatchGrowth, TakesNoLargerBatchForLessThanThreePercent) {
  EXPECT_EQ(settled({8, 64}, [](int64_t n) { return n == 8 ? 1.0 : 0.98; }), 8);
  EXPECT_EQ(settled({8, 64}, [](int64_t n) { return n == 8 ? 1.0 : 0.96; }), 16);
}

TEST(BatchGrowth, CountsNeitherPartsOfABatchNorTheFirstOfASize) {
  BatchGrowth growth(8, 64);
  for (int i = 0; i < 10; ++i) growth.took(7, 7.0);
  EXPECT_EQ(growth.batch(), 8);
  growth.took(8, 1e6);  // a plan is made
  for (int i = 0; i < 3; ++i) growth.took(8, 8.0);
  EXPECT_EQ(growth.batch(), 16);
  growth.took(16, 1e6);
  for (int i = 0; i < 3; ++i) growth.took(16, 8.0);
  EXPECT_EQ(growth.batch(), 32) << "the slow first one decided";
}

TEST(BatchGrowth, LeavesAFixedSizeAlone) {
  EXPECT_EQ(settled({16, 16}, [](int64_t) { return 1.0; }), 16);
  EXPECT_EQ(settled({32, 16}, [](int64_t) { return 1.0; }), 16);
}

}  // namespace
}  // namespace ndtrain::ndp
