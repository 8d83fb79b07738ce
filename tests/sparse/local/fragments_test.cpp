#include "framework/sparse/local/fragments.h"

#include <gtest/gtest.h>

#include <numeric>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

std::vector<ParameterSlot> slots_of(const std::vector<int64_t>& sizes) {
  std::vector<ParameterSlot> slots;
  int64_t begin = 0;
  for (const int64_t n : sizes) {
    slots.push_back({.name = "p", .shape = {n}, .range = {begin, begin + n}});
    begin =
        (begin + n + ParameterSpace::kAlign - 1) / ParameterSpace::kAlign * ParameterSpace::kAlign;
  }
  return slots;
}

TEST(Fragments, HaveAllSlotsOnce) {
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{100, 1, 1, 1}, {1, 1, 1, 100}, {5, 5, 5, 5, 5}, {1, 90, 1, 90, 1}}) {
    const std::vector<ParameterSlot> slots = slots_of(sizes);
    for (int count = 1; count <= std::ssize(slots); ++count) {
      const std::vector<Fragment> fragments = fragments_of(slots, count, 10);
      ASSERT_EQ(std::ssize(fragments), count);
      size_t slot = 0;
      for (const Fragment& f : fragments) {
        EXPECT_EQ(f.first_slot, slot);
        EXPECT_GT(f.end_slot, f.first_slot);
        EXPECT_EQ(f.range.begin, slots[f.first_slot].range.begin);
        EXPECT_EQ(f.range.end, slots[f.end_slot - 1].range.end);
        slot = f.end_slot;
      }
      EXPECT_EQ(slot, slots.size());
    }
  }
}

TEST(Fragments, OfEqualSlotsAreEqual) {
  for (const Fragment& f : fragments_of(slots_of(std::vector<int64_t>(12, 16)), 4, 8)) {
    EXPECT_EQ(f.end_slot - f.first_slot, 3U);
  }
}

TEST(Fragments, AreSentInTurn) {
  std::vector<int64_t> offsets;
  for (const Fragment& f : fragments_of(slots_of({16, 16, 16}), 3, 10)) offsets.push_back(f.offset);
  EXPECT_EQ(offsets, (std::vector<int64_t>{3, 6, 10}));
}

TEST(Fragments, ThatCannotBeAreErrors) {
  EXPECT_THROW(fragments_of(slots_of({1, 1}), 0, 10), Error);
  EXPECT_THROW(fragments_of(slots_of({1, 1}), 3, 10), Error);
  EXPECT_THROW(fragments_of(slots_of({1, 1}), 2, 1), Error);
}

}  // namespace
}  // namespace ndtrain
