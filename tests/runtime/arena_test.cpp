#include "framework/runtime/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "framework/core/rng.h"

namespace ndtrain {
namespace {

size_t rounded_up(size_t n) { return (std::max<size_t>(n, 1) + 63) / 64 * 64; }

bool live_together(const Block& a, const Block& b) {
  return a.first <= b.last && b.first <= a.last;
}

// The most bytes that are needed at one step: no arena is smaller.
size_t peak(const std::vector<Block>& blocks) {
  size_t most = 0;
  for (const Block& at : blocks) {
    size_t sum = 0;
    for (const Block& b : blocks) {
      if (b.first <= at.first && at.first <= b.last) sum += rounded_up(b.bytes);
    }
    most = std::max(most, sum);
  }
  return most;
}

TEST(Arena, BlocksNeededTogetherNeverOverlap) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed, "arena");
    std::vector<Block> blocks(1 + rng.next_below(60));
    size_t sum = 0;
    for (Block& b : blocks) {
      b.bytes = rng.next_below(5) == 0 ? 0 : rng.next_below(5000);
      b.first = static_cast<int>(rng.next_below(40));
      b.last = b.first + static_cast<int>(rng.next_below(10));
      sum += rounded_up(b.bytes);
    }
    const size_t total = assign_offsets(blocks);
    EXPECT_GE(total, peak(blocks)) << "seed " << seed;
    EXPECT_LE(total, sum) << "seed " << seed;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const Block& a = blocks[i];
      EXPECT_EQ(a.offset % kArenaAlignment, 0U);
      EXPECT_LE(a.offset + a.bytes, total);
      for (size_t k = 0; k < i; ++k) {
        const Block& b = blocks[k];
        if (!live_together(a, b)) continue;
        const bool apart = a.offset + std::max<size_t>(a.bytes, 1) <= b.offset ||
                           b.offset + std::max<size_t>(b.bytes, 1) <= a.offset;
        EXPECT_TRUE(apart) << "seed " << seed << ", blocks " << i << " and " << k;
      }
    }
  }
}

TEST(Arena, AChainNeedsTwoBuffers) {
  std::vector<Block> blocks;
  for (int i = 0; i < 50; ++i) blocks.push_back({.bytes = 6400, .first = i, .last = i + 1});
  EXPECT_EQ(assign_offsets(blocks), 2U * 6400U);
}

TEST(Arena, NothingNeedsNothing) { EXPECT_EQ(assign_offsets({}), 0U); }

}  // namespace
}  // namespace ndtrain
