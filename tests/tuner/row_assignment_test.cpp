#include "tuner/ingest/row_assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "framework/core/rng.h"
#include "tests/tuner/claims.h"

namespace ndtrain::tuner {
namespace {

using testing::claims;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
constexpr size_t kAll = 1000;

// Store 0 holds photos [0, 80), store 1 [40, 120), store 2 [100, 160).
struct Three {
  Manifest manifest{std::vector{claims(0, 80), claims(40, 120), claims(100, 160)}, {.runs = 2}};
  RowAssignment assignment{manifest, {"a", "b", "c"}};

  Three() {
    for (uint32_t s = 0; s < 3; ++s) assignment.arrive(s);
  }
  // What a store is asked for now, in the order of its runs.
  std::vector<uint64_t> take(uint32_t store, size_t most) {
    return numbers_of(store, most, assignment.take(store, most));
  }
  std::vector<uint64_t> take_own(uint32_t store) {
    return numbers_of(store, kAll, assignment.take_own(store, kAll));
  }
  std::vector<uint64_t> take_second(uint32_t store, size_t most) {
    return numbers_of(store, most, {assignment.take_second(store, most)});
  }
  std::vector<uint64_t> numbers_of(uint32_t store, size_t most,
                                   const std::vector<RowAssignment::Share>& shares) const {
    std::vector<uint64_t> numbers;
    for (const RowAssignment::Share& share : shares) {
      EXPECT_TRUE(std::ranges::is_sorted(share.numbers));
      for (const uint64_t n : share.numbers) {
        EXPECT_EQ(manifest.entry(n).run, share.run);
        EXPECT_TRUE(std::ranges::binary_search(manifest.entry(n).holders, store));
        numbers.push_back(n);
      }
    }
    EXPECT_LE(numbers.size(), most);
    return numbers;
  }
  bool shared(uint64_t n) const { return manifest.entry(n).holders.size() > 1; }
};

TEST(RowAssignment, EveryPhotoIsAskedOfOneStoreThatHasIt) {
  Three t;
  std::vector<int> asked(t.manifest.size());
  for (int turn = 0; turn < 100; ++turn) {
    for (uint32_t s = 0; s < 3; ++s) {
      for (const uint64_t n : t.take(s, 5)) ++asked[n];
    }
  }
  EXPECT_EQ(asked, std::vector<int>(160, 1));
  EXPECT_EQ(t.assignment.outstanding(0) + t.assignment.outstanding(1) + t.assignment.outstanding(2),
            160U);
}

TEST(RowAssignment, FirstRunsComeFirstAndInThemWhatNobodyElseHas) {
  Three t;
  std::vector<uint32_t> runs;
  for (const RowAssignment::Share& share : t.assignment.take(0, kAll)) runs.push_back(share.run);
  EXPECT_EQ(runs, (std::vector<uint32_t>{0, 1, 2}));
  Three again;
  const uint64_t first = again.take(1, 1).at(0);
  EXPECT_FALSE(again.shared(first));
  EXPECT_EQ(again.manifest.entry(first).run, 0U);
}

// The same in each job and whoever is asked first, so that a store finds in its cache what it made
// before.
TEST(RowAssignment, AStoreHasPhotosOfItsOwn) {
  Three t, u;
  const std::vector<uint64_t> own_0 = t.take_own(0), own_1 = t.take_own(1);
  EXPECT_EQ(u.take_own(1), own_1);
  EXPECT_EQ(u.take_own(0), own_0);
  const auto both = std::ranges::count_if(own_0, [&](uint64_t n) { return t.shared(n); });
  EXPECT_GT(both, 8);
  EXPECT_LT(both, 32) << "40 are spread over their two holders";
}

// As it is where an object store's map gives them to another host.
TEST(RowAssignment, AStoreThatCameToHoldPhotosIsAskedForThem) {
  Three t;
  std::vector<uint64_t> of_a;  // that it alone has
  for (uint64_t n = 0; n < t.manifest.size(); ++n) {
    if (t.manifest.entry(n).holders == decltype(t.manifest.entry(n).holders){0}) of_a.push_back(n);
  }
  ASSERT_EQ(of_a.size(), 40U);
  const std::vector<uint64_t> asked = t.take(0, 30);
  t.take(2, kAll);
  t.assignment.hold(2, of_a);
  t.assignment.hold(2, of_a);
  EXPECT_THAT(t.assignment.take_changed(), Contains(2U));
  t.assignment.leave(0);
  std::vector<uint64_t> taken;
  for (const RowAssignment::Share& share : t.assignment.take(2, kAll)) {
    taken.insert(taken.end(), share.numbers.begin(), share.numbers.end());
  }
  std::ranges::sort(taken);
  EXPECT_EQ(taken, of_a);
  t.assignment.cannot_read(of_a[0], 0, "store a is lost");
  EXPECT_THAT(t.assignment.unreadable(), IsEmpty()) << "the other has it";
  t.assignment.cannot_read(of_a[0], 2, "the disk");
  EXPECT_EQ(t.assignment.unreadable().size(), 1U);
}

TEST(RowAssignment, OneThatHasNothingLeftTakesWhatOthersWereNotAskedFor) {
  Three t;
  const std::vector<uint64_t> slow = t.take(1, 5);
  size_t shared = 0;
  for (const uint64_t n : t.take(0, kAll)) shared += t.shared(n);
  EXPECT_GE(shared, 40U - slow.size()) << "all of those that 0 and 1 hold";
}

TEST(RowAssignment, TheLastOnesAreAskedForTwice) {
  Three t;
  std::vector<uint64_t> both;  // that 1 was asked for, and 0 has, too
  for (const uint64_t n : t.take_own(1)) {
    if (std::ranges::binary_search(t.manifest.entry(n).holders, 0U)) both.push_back(n);
  }
  ASSERT_GT(both.size(), 10U);
  for (const uint64_t n : t.take(0, kAll)) EXPECT_TRUE(t.assignment.mark_durable(n));
  EXPECT_THAT(t.take(0, kAll), IsEmpty());
  std::vector<uint64_t> twice;
  for (;;) {
    const std::vector<uint64_t> some = t.take_second(0, 100);
    if (some.empty()) break;
    if (twice.empty()) {
      EXPECT_GT(some.front(), both.front()) << "1 is asked for that before";
    }
    twice.insert(twice.end(), some.begin(), some.end());
    for (const uint64_t n : some) EXPECT_TRUE(t.assignment.mark_durable(n));
  }
  std::ranges::sort(twice);
  std::ranges::sort(both);
  EXPECT_EQ(twice, both);
  for (const uint64_t n : both) EXPECT_FALSE(t.assignment.mark_durable(n)) << "the second answer";
}

TEST(RowAssignment, ThreeTimesIsOnceTooOften) {
  const std::vector<std::vector<PhotoClaim>> held(3, claims(0, 50));
  const Manifest manifest(held, {});
  RowAssignment assignment(manifest, {"a", "b", "c"});
  for (uint32_t s = 0; s < 3; ++s) assignment.arrive(s);
  (void)assignment.take(0, kAll);
  for (int turn = 0; turn < 10; ++turn) (void)assignment.take_second(1, kAll);
  EXPECT_EQ(assignment.outstanding(1), 50U);
  EXPECT_THAT(assignment.take_second(2, kAll).numbers, IsEmpty());
  assignment.leave(0);
  EXPECT_THAT(assignment.take(2, kAll), IsEmpty()) << "1 is asked for all of them";
  EXPECT_GT(assignment.take_second(2, 10).numbers.size(), 0U);
}

TEST(RowAssignment, WhatALostStoreWasAskedForOthersAre) {
  Three t;
  const std::vector<uint64_t> lost = t.take(1, kAll);
  for (uint32_t s : {0U, 2U}) (void)t.take(s, kAll);
  t.assignment.leave(1);
  EXPECT_EQ(t.assignment.outstanding(1), 0U);
  std::set<uint64_t> again;
  for (uint32_t s : {0U, 2U}) {
    for (const uint64_t n : t.take(s, kAll)) again.insert(n);
  }
  for (const uint64_t n : lost) EXPECT_EQ(again.contains(n), t.shared(n)) << n;
  t.assignment.arrive(1);
  for (const uint64_t n : t.take(1, kAll)) EXPECT_TRUE(again.insert(n).second) << n;
  for (const uint64_t n : lost) EXPECT_TRUE(again.contains(n)) << n;
}

// So that of very many stores those are looked at which may have something to do.
TEST(RowAssignment, SaysForWhomThereMayBeMoreToDo) {
  Three t;
  EXPECT_THAT(t.assignment.take_changed(), ElementsAre(0u, 1u, 2u)) << "they have come";
  const std::vector<uint64_t> of_2 = t.take(2, kAll), of_1 = t.take(1, kAll);
  EXPECT_THAT(t.assignment.take_changed(), IsEmpty());
  const auto alone = std::ranges::find_if_not(of_2, [&](uint64_t n) { return t.shared(n); });
  (void)t.assignment.mark_durable(*alone);
  EXPECT_THAT(t.assignment.take_changed(), ElementsAre(2u)) << "it has room for one more";
  const auto both = std::ranges::find_if(of_1, [&](uint64_t n) { return t.shared(n); });
  t.assignment.cannot_read(*both, 1, "torn");
  EXPECT_THAT(t.assignment.take_changed(), Contains(0u)) << "the other holder";
  t.assignment.leave(1);
  EXPECT_THAT(t.assignment.take_changed(), ElementsAre(0u, 1u)) << "2 is asked for what it shares";
}

TEST(RowAssignment, ARepeatIsToldApart) {
  Three t;
  EXPECT_TRUE(t.assignment.mark_durable(5));
  EXPECT_FALSE(t.assignment.mark_durable(5));
}

TEST(RowAssignment, ARunIsCompleteWhenEachPhotoIsThereOrUnreadableEverywhere) {
  Three t;
  const uint64_t bad = t.take(2, 1).at(0);
  const uint32_t run = t.manifest.entry(bad).run;
  const auto holders = t.manifest.entry(bad).holders;
  t.assignment.cannot_read(bad, 2, "cut short");
  for (const uint64_t n : t.manifest.run(run)) {
    if (n == bad && holders.size() == 1) continue;
    EXPECT_TRUE(t.assignment.mark_durable(n));
  }
  EXPECT_TRUE(t.assignment.complete(run));
  EXPECT_EQ(t.assignment.unreadable().count(bad), holders.size() == 1 ? 1u : 0u);
  EXPECT_FALSE(t.assignment.complete((run + 1) % 3));
}

TEST(RowAssignment, TheNextHolderIsAskedForWhatOneCannotRead) {
  Three t;
  std::set<uint64_t> corrupt;
  for (const uint64_t n : t.take_own(0)) {
    t.assignment.cannot_read(n, 0, "corrupt");
    corrupt.insert(n);
  }
  size_t again = 0;
  for (const uint64_t n : t.take(1, kAll)) {
    if (!corrupt.contains(n)) continue;
    ++again;
    EXPECT_TRUE(t.shared(n));
    EXPECT_FALSE(t.assignment.unreadable().contains(n));
    t.assignment.cannot_read(n, 1, "corrupt too");
    EXPECT_EQ(t.assignment.unreadable().at(n), "corrupt too");
  }
  EXPECT_GT(again, 8U);
  EXPECT_EQ(t.assignment.unreadable().size(), corrupt.size());
  for (const uint64_t n : t.take(0, kAll)) EXPECT_FALSE(corrupt.contains(n));
}

// Another's row of it was on its way to the disk, and is no use after all.
TEST(RowAssignment, WhatWasDroppedIsAskedForAgainWhereTheOtherIsOfNoUse) {
  Three t;
  const std::vector<uint64_t> of_1 = t.take(1, kAll);
  const uint64_t n = *std::ranges::find_if(
      of_1, [&](uint64_t k) { return t.manifest.entry(k).holders.front() == 0; });
  t.assignment.leave(1);  // behind its row
  const std::vector<uint64_t> of_0 = t.take(0, kAll);
  ASSERT_THAT(of_0, Contains(n));
  t.assignment.take_back(n, 0);
  EXPECT_THAT(t.take(0, kAll), IsEmpty());
  t.assignment.cannot_read(n, 1, "the file is another one");
  EXPECT_THAT(t.take(0, kAll), ElementsAre(n));
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
      switch (rng.next_bits() % 8) {
        case 0:
          t.assignment.leave(store);
          break;
        case 1:
        case 2:
          t.assignment.arrive(store);
          break;
        case 3:
          if (!t.assignment.is_here(store)) break;
          for (const auto& some :
               {t.take(store, 1 + rng.next_bits() % 30), t.take_second(store, 5)}) {
            for (const uint64_t n : some) under_way.push_back({store, n});
          }
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
    for (uint32_t s = 0; s < 3; ++s) EXPECT_EQ(t.assignment.outstanding(s), 0U);
  }
}

// Stores that hold all photos, each of so many photos a second, asked for `portion` at a time and
// again when half of them are there: when the last row is there, as a multiple of the least time.
double beyond_ideal(const std::vector<double>& rates, int photos, uint32_t runs, size_t portion) {
  const std::vector<std::vector<PhotoClaim>> held(rates.size(), claims(0, photos));
  const Manifest manifest(held, {.runs = runs});
  std::vector<std::string> names;
  for (size_t s = 0; s < rates.size(); ++s) names.push_back("store" + std::to_string(s));
  RowAssignment assignment(manifest, names);
  std::vector<std::set<std::pair<uint32_t, uint64_t>>> queues(rates.size());  // run, number
  std::vector<double> free_at(rates.size());
  double sum = 0, now = 0;
  for (uint32_t s = 0; s < rates.size(); ++s) {
    assignment.arrive(s);
    sum += rates[s];
  }
  const auto queue = [&](uint32_t s, const std::vector<RowAssignment::Share>& shares) {
    for (const auto& share : shares) {
      if (queues[s].empty()) free_at[s] = std::max(free_at[s], now);
      for (const uint64_t n : share.numbers) queues[s].insert({share.run, n});
    }
    return !shares.empty();
  };
  for (uint32_t s = 0; s < rates.size(); ++s) queue(s, assignment.take_own(s, 2 * portion));
  uint64_t left = manifest.size();
  while (left > 0) {
    for (uint32_t s = 0; s < rates.size(); ++s) {
      const size_t outstanding = assignment.outstanding(s);
      if (outstanding >= portion) continue;
      if (!queue(s, assignment.take(s, 2 * portion - outstanding)) && outstanding == 0) {
        queue(s, {assignment.take_second(s, 256)});
      }
    }
    // The store that is ready with its next photo first.
    uint32_t next = 0;
    double at = 1e30;
    for (uint32_t s = 0; s < rates.size(); ++s) {
      if (queues[s].empty() || free_at[s] + 1 / rates[s] >= at) continue;
      next = s;
      at = free_at[s] + 1 / rates[s];
    }
    if (at == 1e30) return at;  // nobody was asked for what is left
    const uint64_t number = queues[next].begin()->second;
    queues[next].erase(queues[next].begin());
    now = free_at[next] = at;
    left -= assignment.mark_durable(number);
  }
  return now * sum / photos;
}

TEST(RowAssignment, AStoreOfHalfTheSpeedCostsATenthAtMost) {
  double worst = 1;
  for (const uint32_t runs : {1U, 3U}) {
    for (const int photos : {600, 20'000}) {
      for (const size_t portion : {512U, 4096U}) {
        for (const std::vector<double>& rates :
             {std::vector{100.0, 50.0}, {50.0, 100.0}, {100.0, 100.0, 50.0}, {100.0, 10.0}}) {
          const double x = beyond_ideal(rates, photos, runs, portion);
          EXPECT_LE(x, 1.10) << photos << " photos, " << runs << " runs, " << portion
                             << " at a time, " << rates.size() << " stores";
          worst = std::max(worst, x);
        }
      }
    }
  }
  RecordProperty("worst", std::to_string(worst));
}

}  // namespace
}  // namespace ndtrain::tuner
