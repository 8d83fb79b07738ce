#include "tuner/ingest/row_assignment.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "framework/core/rng.h"
#include "tests/tuner/claims.h"

namespace ndtrain::tuner {
namespace {

using testing::claims;

// Store 0 holds photos [0, 80), store 1 [40, 120), store 2 [100, 160).
struct Three {
  Manifest manifest{std::vector{claims(0, 80), claims(40, 120), claims(100, 160)}, {.runs = 2}};
  RowAssignment assignment{manifest, {"a", "b", "c"}};

  Three() {
    for (uint32_t s = 0; s < 3; ++s) assignment.arrive(s);
  }
  void deliver(uint32_t store, uint32_t run) {
    for (uint64_t n : assignment.assigned(store, run)) EXPECT_TRUE(assignment.mark_durable(n));
  }
};

TEST(RowAssignment, EveryPhotoIsAssignedToOneStoreThatHasIt) {
  Three t;
  std::vector<int> assigned(t.manifest.size());
  for (uint32_t run = 0; run <= 2; ++run) {
    EXPECT_FALSE(t.assignment.complete(run));
    for (uint32_t s = 0; s < 3; ++s) {
      for (uint64_t n : t.assignment.assigned(s, run)) {
        ++assigned[n];
        EXPECT_EQ(t.manifest.entry(n).run, run);
        const auto& holders = t.manifest.entry(n).holders;
        EXPECT_NE(std::ranges::find(holders, s), holders.end());
      }
    }
  }
  EXPECT_EQ(assigned, std::vector<int>(160, 1));
}

TEST(RowAssignment, SharedPhotosAreSpreadOverTheirHolders) {
  Three t;
  int first = 0, shared = 0;
  for (uint64_t n = 0; n < t.manifest.size(); ++n) {
    if (t.manifest.entry(n).holders != std::vector<uint32_t>{0, 1}) continue;
    ++shared;
    first += t.assignment.assignee(n) == 0u;
  }
  EXPECT_EQ(shared, 40);
  EXPECT_GT(first, 8);
  EXPECT_LT(first, 32);
}

TEST(RowAssignment, WhatALostStoreWasAssignedGoesToOtherHoldersAndNothingElseMoves) {
  Three t;
  std::vector<std::optional<uint32_t>> before;
  for (uint64_t n = 0; n < 160; ++n) before.push_back(t.assignment.assignee(n));
  t.assignment.leave(1);
  uint64_t orphans = 0;
  for (uint64_t n = 0; n < 160; ++n) {
    EXPECT_TRUE(before[n] == 1u || t.assignment.assignee(n) == before[n]);
    EXPECT_NE(t.assignment.assignee(n), 1u);
  }
  for (uint32_t run = 0; run <= 2; ++run) orphans += t.assignment.orphans(run).size();
  EXPECT_EQ(orphans, 20u) << "photos 80 to 99 lie on store 1 alone";
  t.assignment.arrive(1);
  for (uint64_t n = 0; n < 160; ++n) EXPECT_EQ(t.assignment.assignee(n), before[n]);
}

TEST(RowAssignment, ARepeatIsToldApart) {
  Three t;
  EXPECT_TRUE(t.assignment.mark_durable(5));
  EXPECT_FALSE(t.assignment.mark_durable(5));
  EXPECT_EQ(t.assignment.assignee(5), std::nullopt);
}

TEST(RowAssignment, ARunIsCompleteWhenEachPhotoIsThereOrUnreadableEverywhere) {
  Three t;
  const uint64_t bad = t.assignment.assigned(2, 1).at(0);
  const auto holders = t.manifest.entry(bad).holders;
  t.assignment.cannot_read(bad, 2, "cut short");
  for (uint32_t s = 0; s < 3; ++s) t.deliver(s, 1);
  EXPECT_TRUE(t.assignment.complete(1));
  EXPECT_EQ(t.assignment.unreadable().count(bad), holders.size() == 1 ? 1u : 0u);
  EXPECT_FALSE(t.assignment.complete(2));
}

TEST(RowAssignment, TheNextHolderIsAssignedWhatOneCannotRead) {
  Three t;
  for (uint64_t n = 0; n < 160; ++n) {
    if (t.manifest.entry(n).holders.size() != 2) continue;
    const uint32_t first = *t.assignment.assignee(n);
    t.assignment.cannot_read(n, first, "corrupt");
    const std::optional<uint32_t> second = t.assignment.assignee(n);
    ASSERT_TRUE(second && *second != first);
    t.assignment.cannot_read(n, *second, "corrupt too");
    EXPECT_EQ(t.assignment.assignee(n), std::nullopt);
    EXPECT_EQ(t.assignment.unreadable().at(n), "corrupt too");
  }
}

TEST(RowAssignment, AnyOrderOfEventsEndsWithEveryPhotoOnce) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Three t;
    Rng rng(seed, "assignment");
    std::vector<int> durable(160);
    std::vector<std::pair<uint32_t, uint64_t>> under_way;  // sent, perhaps twice, not yet durable
    const auto done = [&] {
      return t.assignment.complete(0) && t.assignment.complete(1) && t.assignment.complete(2);
    };
    for (int step = 0; step < 20'000 && !done(); ++step) {
      const auto store = static_cast<uint32_t>(rng.next_bits() % 3);
      const auto run = static_cast<uint32_t>(rng.next_bits() % 3);
      switch (rng.next_bits() % 8) {
        case 0:
          t.assignment.leave(store);
          break;
        case 1:
        case 2:
          t.assignment.arrive(store);
          break;
        case 3:
          for (uint64_t n : t.assignment.assigned(store, run)) under_way.push_back({store, n});
          break;
        default:
          if (under_way.empty()) break;
          const size_t at = rng.next_bits() % under_way.size();
          durable[under_way[at].second] += t.assignment.mark_durable(under_way[at].second);
          if (rng.next_bits() % 4) under_way.erase(under_way.begin() + static_cast<int64_t>(at));
      }
    }
    ASSERT_TRUE(done()) << "seed " << seed;
    EXPECT_EQ(durable, std::vector<int>(160, 1)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ndtrain::tuner
