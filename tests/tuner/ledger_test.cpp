#include "tuner/ingest/ledger.h"

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
  Ledger ledger{manifest, {"a", "b", "c"}};

  Three() {
    for (uint32_t s = 0; s < 3; ++s) ledger.arrive(s);
  }
  void deliver(uint32_t store, uint32_t run) {
    for (uint64_t n : ledger.owed(store, run)) EXPECT_TRUE(ledger.settle(n));
  }
};

TEST(Ledger, EveryPhotoIsOwedByOneStoreThatHasIt) {
  Three t;
  std::vector<int> owed(t.manifest.size());
  for (uint32_t run = 0; run <= 2; ++run) {
    EXPECT_FALSE(t.ledger.complete(run));
    for (uint32_t s = 0; s < 3; ++s) {
      for (uint64_t n : t.ledger.owed(s, run)) {
        ++owed[n];
        EXPECT_EQ(t.manifest.entry(n).run, run);
        const auto& holders = t.manifest.entry(n).holders;
        EXPECT_NE(std::ranges::find(holders, s), holders.end());
      }
    }
  }
  EXPECT_EQ(owed, std::vector<int>(160, 1));
}

TEST(Ledger, SharedPhotosAreSpreadOverTheirHolders) {
  Three t;
  int first = 0, shared = 0;
  for (uint64_t n = 0; n < t.manifest.size(); ++n) {
    if (t.manifest.entry(n).holders != std::vector<uint32_t>{0, 1}) continue;
    ++shared;
    first += t.ledger.debtor(n) == 0u;
  }
  EXPECT_EQ(shared, 40);
  EXPECT_GT(first, 8);
  EXPECT_LT(first, 32);
}

TEST(Ledger, WhatALostStoreOwedGoesToOtherHoldersAndNothingElseMoves) {
  Three t;
  std::vector<std::optional<uint32_t>> before;
  for (uint64_t n = 0; n < 160; ++n) before.push_back(t.ledger.debtor(n));
  t.ledger.leave(1);
  uint64_t orphans = 0;
  for (uint64_t n = 0; n < 160; ++n) {
    EXPECT_TRUE(before[n] == 1u || t.ledger.debtor(n) == before[n]);
    EXPECT_NE(t.ledger.debtor(n), 1u);
  }
  for (uint32_t run = 0; run <= 2; ++run) orphans += t.ledger.orphans(run).size();
  EXPECT_EQ(orphans, 20u) << "photos 80 to 99 lie on store 1 alone";
  t.ledger.arrive(1);
  for (uint64_t n = 0; n < 160; ++n) EXPECT_EQ(t.ledger.debtor(n), before[n]);
}

TEST(Ledger, ARepeatIsToldApart) {
  Three t;
  EXPECT_TRUE(t.ledger.settle(5));
  EXPECT_FALSE(t.ledger.settle(5));
  EXPECT_EQ(t.ledger.debtor(5), std::nullopt);
}

TEST(Ledger, ARunIsCompleteWhenEachPhotoIsThereOrUnreadableEverywhere) {
  Three t;
  const uint64_t bad = t.ledger.owed(2, 1).at(0);
  const auto holders = t.manifest.entry(bad).holders;
  t.ledger.cannot_read(bad, 2, "cut short");
  for (uint32_t s = 0; s < 3; ++s) t.deliver(s, 1);
  EXPECT_TRUE(t.ledger.complete(1));
  EXPECT_EQ(t.ledger.unreadable().count(bad), holders.size() == 1 ? 1u : 0u);
  EXPECT_FALSE(t.ledger.complete(2));
}

TEST(Ledger, TheNextHolderOwesWhatOneCannotRead) {
  Three t;
  for (uint64_t n = 0; n < 160; ++n) {
    if (t.manifest.entry(n).holders.size() != 2) continue;
    const uint32_t first = *t.ledger.debtor(n);
    t.ledger.cannot_read(n, first, "corrupt");
    const std::optional<uint32_t> second = t.ledger.debtor(n);
    ASSERT_TRUE(second && *second != first);
    t.ledger.cannot_read(n, *second, "corrupt too");
    EXPECT_EQ(t.ledger.debtor(n), std::nullopt);
    EXPECT_EQ(t.ledger.unreadable().at(n), "corrupt too");
  }
}

TEST(Ledger, AnyOrderOfEventsEndsWithEveryPhotoOnce) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Three t;
    Rng rng(seed, "ledger");
    std::vector<int> settled(160);
    std::vector<std::pair<uint32_t, uint64_t>> under_way;  // sent, perhaps twice, not yet settled
    const auto done = [&] {
      return t.ledger.complete(0) && t.ledger.complete(1) && t.ledger.complete(2);
    };
    for (int step = 0; step < 20'000 && !done(); ++step) {
      const auto store = static_cast<uint32_t>(rng.next_bits() % 3);
      const auto run = static_cast<uint32_t>(rng.next_bits() % 3);
      switch (rng.next_bits() % 8) {
        case 0:
          t.ledger.leave(store);
          break;
        case 1:
        case 2:
          t.ledger.arrive(store);
          break;
        case 3:
          for (uint64_t n : t.ledger.owed(store, run)) under_way.push_back({store, n});
          break;
        default:
          if (under_way.empty()) break;
          const size_t at = rng.next_bits() % under_way.size();
          settled[under_way[at].second] += t.ledger.settle(under_way[at].second);
          if (rng.next_bits() % 4) under_way.erase(under_way.begin() + static_cast<int64_t>(at));
      }
    }
    ASSERT_TRUE(done()) << "seed " << seed;
    EXPECT_EQ(settled, std::vector<int>(160, 1)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ndtrain::tuner
