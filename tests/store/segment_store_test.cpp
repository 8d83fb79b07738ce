#include "ndp/store/segment_store.h"

#include <gtest/gtest.h>

#include <thread>

#include "framework/core/limits.h"
#include "framework/core/rng.h"
#include "tests/store/store_fixture.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_store;

const Digest kA = digest("extractor a"), kB = digest("extractor b"), kC = digest("extractor c");
constexpr int64_t kOverhead = kSegmentHeaderBytes;

class SegmentStoreTest : public ::testing::Test {
 protected:
  MemoryFs fs;
  ManualClock clock;
};

TEST_F(SegmentStoreTest, ReturnsWhatWasPut) {
  auto store = open_store(fs, clock);
  ASSERT_TRUE(put(*store, kA, key(1), "one").ok());
  ASSERT_TRUE(put(*store, kB, key(1), "").ok());
  EXPECT_EQ(get(*store, kA, key(1)), "one");
  EXPECT_EQ(get(*store, kB, key(1)), "");
  EXPECT_EQ(get(*store, kA, key(2)), "absent");
  EXPECT_EQ(get(*store, kC, key(1)), "absent");
  ASSERT_TRUE(put(*store, kA, key(1), "another").ok());
  EXPECT_EQ(get(*store, kA, key(1)), "another");
  EXPECT_TRUE(store->contains(kA, key(1)));
  ASSERT_TRUE(store->remove(kA, key(1)).ok());
  EXPECT_FALSE(store->contains(kA, key(1)));
  EXPECT_EQ(get(*store, kA, key(1)), "absent");
}

TEST_F(SegmentStoreTest, FillsALongerBufferAndRefusesAShorterOne) {
  auto store = open_store(fs, clock);
  ASSERT_TRUE(put(*store, kA, key(1), "12345").ok());
  std::array<std::byte, 8> buffer;
  EXPECT_EQ(store->get(kA, key(1), std::span(buffer)).or_throw().bytes, 5u);
  EXPECT_EQ(store->get(kA, key(1), std::span(buffer).first(5)).or_throw().bytes, 5u);
  EXPECT_EQ(store->get(kA, key(1), std::span(buffer).first(4)).status().code(), Code::kTooLarge);
}

TEST_F(SegmentStoreTest, FindsWhatIsKnownOfAPayloadWithoutReadingIt) {
  auto store = open_store(fs, clock);
  ASSERT_TRUE(put(*store, kA, key(1), "12345").ok());
  ASSERT_TRUE(store->flush().ok());
  const Found found = store->find(kA, key(1)).or_throw();
  EXPECT_EQ(found.bytes, 5u);
  EXPECT_EQ(found.meta, (RecordMeta{.dtype = DType::kF16, .numerics = 5}));
  EXPECT_EQ(store->find(kA, key(2)).status().code(), Code::kNotFound);
  EXPECT_EQ(store->find(kB, key(1)).status().code(), Code::kNotFound);

  const std::string path = segment_files(fs).at(0);
  std::string file = fs.read(path).or_throw();
  file[kSegmentHeaderBytes + 20] ^= 1;
  support::write_file(fs, path, file);
  EXPECT_EQ(store->find(kA, key(1)).status().code(), Code::kCorrupt);
  EXPECT_FALSE(store->contains(kA, key(1)));
}

TEST_F(SegmentStoreTest, RefusesARecordBeyondTheLimit) {
  auto store = open_store(fs, clock);
  const std::byte* never_read = nullptr;
  const size_t beyond = limits::kRecord - kRecordHeaderBytes + 1;
  EXPECT_EQ(store->put(kA, key(1), {}, {never_read, beyond}).code(), Code::kTooLarge);
}

TEST_F(SegmentStoreTest, KeepsAllOverCloseAndOpenWithAndWithoutTheIndex) {
  const SegmentOptions options{.segment_bytes = 500};
  {
    auto store = open_store(fs, clock, options);
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(put(*store, i % 2 ? kA : kB, key(i), std::to_string(i)).ok());
    }
    ASSERT_TRUE(store->remove(kA, key(1)).ok());
    ASSERT_TRUE(put(*store, kB, key(2), "new").ok());
    ASSERT_TRUE(store->close().ok());
  }
  EXPECT_GT(segment_files(fs).size(), 10u);
  for (const bool with_index : {true, false}) {
    if (!with_index) {
      ASSERT_TRUE(fs.remove(join(kDir, "index")).ok());
    }
    auto store = open_store(fs, clock, options);
    for (int i = 0; i < 50; ++i) {
      const std::string expected = i == 1 ? "absent" : i == 2 ? "new" : std::to_string(i);
      EXPECT_EQ(get(*store, i % 2 ? kA : kB, key(i)), expected);
    }
  }
}

TEST_F(SegmentStoreTest, GoesOnInTheSegmentOfLastTime) {
  for (int i = 0; i < 5; ++i) {
    auto store = open_store(fs, clock);
    ASSERT_TRUE(put(*store, kA, key(i), "x").ok());
    ASSERT_TRUE(store->close().ok());
  }
  EXPECT_EQ(segment_files(fs).size(), 1u);
  auto store = open_store(fs, clock);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(get(*store, kA, key(i)), "x");
}

TEST_F(SegmentStoreTest, BelongsToOneProcessAtATime) {
  auto store = open_store(fs, clock);
  EXPECT_EQ(SegmentStore::open(fs, clock, kDir).status().code(), Code::kExists);
  store.reset();
  EXPECT_TRUE(SegmentStore::open(fs, clock, kDir).ok());
}

TEST_F(SegmentStoreTest, IsLockedOnTheRealFileSystemToo) {
  const support::TemporaryDirectory parent;
  const std::string dir = parent.at("cache");
  auto store = SegmentStore::open(real_fs(), clock, dir).or_throw();
  ASSERT_TRUE(put(*store, kA, key(1), "x").ok());
  ASSERT_TRUE(store->close().ok());
  EXPECT_EQ(SegmentStore::open(real_fs(), clock, dir).status().code(), Code::kExists);
  store.reset();
  store = SegmentStore::open(real_fs(), clock, dir).or_throw();
  EXPECT_EQ(get(*store, kA, key(1)), "x");
  ASSERT_TRUE(store->remove_group(kA).ok());
  store.reset();
  for (const char* name : {"/index", "/lock", ""}) ASSERT_TRUE(real_fs().remove(dir + name).ok());
}

TEST_F(SegmentStoreTest, LeavesANewerFormatAlone) {
  ASSERT_TRUE(fs.make_directories(kDir).ok());
  const auto header = encode(SegmentHeader{.version = kSegmentVersion + 1, .number = 1});
  support::write_file(fs, join(kDir, segment_name(1)),
                      {reinterpret_cast<const char*>(header.data()), header.size()});
  EXPECT_EQ(SegmentStore::open(fs, clock, kDir).status().code(), Code::kUnsupported);
  EXPECT_EQ(segment_files(fs).size(), 1u);
}

TEST_F(SegmentStoreTest, TakesExactlyItsBudget) {
  const int64_t record = record_bytes(8);
  for (const int64_t spare : {-1, 0, 1}) {
    MemoryFs fresh;
    // Room is asked for with the header of a new segment on top.
    auto store = open_store(fresh, clock, {.budget_bytes = kOverhead * 2 + 3 * record + spare});
    EXPECT_TRUE(put(*store, kA, key(1), "12345678").ok());
    EXPECT_TRUE(put(*store, kA, key(2), "12345678").ok());
    EXPECT_EQ(put(*store, kA, key(3), "12345678").ok(), spare >= 0) << spare;
    EXPECT_EQ(put(*store, kA, key(4), "12345678").code(), Code::kNoSpace);
    EXPECT_LE(store->disk_bytes(), store->budget_bytes());
    EXPECT_EQ(get(*store, kA, key(2)), "12345678");
  }
}

TEST_F(SegmentStoreTest, TakesATenthOfTheVolumeAndNeverItsLastTwentieth) {
  fs.set_capacity(100'000);
  auto store = open_store(fs, clock);
  EXPECT_EQ(store->budget_bytes(), 10'000);
  store.reset();
  store = open_store(fs, clock, {.budget_bytes = 1'000'000});
  const std::string payload(1000, 'x');
  Status s;
  for (int i = 0; s.ok(); ++i) {
    s = put(*store, kA, key(i), payload);
    ASSERT_LT(i, 100);
  }
  EXPECT_EQ(s.code(), Code::kNoSpace);
  EXPECT_GE(fs.space(kDir).or_throw().free, 5000);
  EXPECT_LT(fs.space(kDir).or_throw().free, 5000 + 1200);
  EXPECT_EQ(get(*store, kA, key(0)), payload);
}

TEST_F(SegmentStoreTest, EvictsTheGroupThatWasNotUsedForLongest) {
  const std::string payload(1000, 'x');
  auto store = open_store(fs, clock, {.budget_bytes = 3 * 1300});
  ASSERT_TRUE(put(*store, kA, key(1), payload).ok());
  ASSERT_TRUE(put(*store, kB, key(1), payload).ok());
  EXPECT_EQ(get(*store, kA, key(1)), payload);
  ASSERT_TRUE(put(*store, kC, key(1), payload).ok());
  EXPECT_EQ(store->groups().front().group, kB);
  ASSERT_TRUE(store->close().ok());
  store.reset();

  // The order of uses outlives the process.
  store = open_store(fs, clock, {.budget_bytes = 3 * 1300});
  ASSERT_TRUE(put(*store, kC, key(2), payload).ok());
  EXPECT_FALSE(store->contains(kB, key(1)));
  EXPECT_TRUE(store->contains(kA, key(1)));
  ASSERT_TRUE(put(*store, kC, key(3), payload).ok());
  EXPECT_FALSE(store->contains(kA, key(1)));
  // It never evicts the group it puts into, nor anything when that does not help.
  EXPECT_EQ(put(*store, kC, key(4), payload).code(), Code::kNoSpace);
  EXPECT_EQ(put(*store, kA, key(1), std::string(5000, 'x')).code(), Code::kNoSpace);
  EXPECT_EQ(store->groups().size(), 1u);
  EXPECT_EQ(store->groups()[0].records, 3);
}

TEST_F(SegmentStoreTest, GcHoldsASmallerBudget) {
  const std::string payload(1000, 'x');
  auto store = open_store(fs, clock, {.budget_bytes = 100'000});
  for (const Digest& group : {kA, kB, kC}) {
    clock.advance(std::chrono::seconds(10));
    ASSERT_TRUE(put(*store, group, key(1), payload).ok());
  }
  ASSERT_TRUE(store->close().ok());
  store.reset();
  store = open_store(fs, clock, {.budget_bytes = 2500});
  const GcReport report = store->gc().or_throw();
  EXPECT_EQ(report.groups_evicted, 1);
  EXPECT_LT(report.bytes_after, report.bytes_before);
  EXPECT_FALSE(store->contains(kA, key(1)));
  EXPECT_EQ(get(*store, kB, key(1)), payload);
  EXPECT_EQ(get(*store, kC, key(1)), payload);
}

TEST_F(SegmentStoreTest, CompactionKeepsExactlyWhatLives) {
  const SegmentOptions options{.segment_bytes = 2000};
  std::map<int, std::string> model;
  Rng rng(3);
  auto store = open_store(fs, clock, options);
  for (int step = 0; step < 600; ++step) {
    const int k = static_cast<int>(rng.next_below(40));
    if (rng.next_below(3) == 0) {
      ASSERT_TRUE(store->remove(kA, key(k)).ok());
      model.erase(k);
    } else {
      model[k] = std::string(rng.next_below(100), 'a' + static_cast<char>(step % 26));
      ASSERT_TRUE(put(*store, kA, key(k), model[k]).ok());
    }
    if (step % 200 != 199) continue;
    const GcReport report = step < 400 ? store->gc().or_throw() : store->compact().or_throw();
    EXPECT_LT(report.bytes_after, report.bytes_before);
    EXPECT_EQ(store->disk_bytes(), report.bytes_after);
    // Once from the index, once from the segments alone.
    for (int again = 0; again < 3; ++again) {
      for (int i = 0; i < 40; ++i) {
        EXPECT_EQ(get(*store, kA, key(i)), model.contains(i) ? model[i] : "absent") << step;
      }
      store.reset();
      if (again == 1) static_cast<void>(fs.remove(join(kDir, "index")).ok());
      store = open_store(fs, clock, options);
    }
  }
  // Nothing but the live records and tombstones of older segments is left.
  int64_t live = 0;
  for (const auto& [k, value] : model) live += record_bytes(static_cast<uint32_t>(value.size()));
  EXPECT_EQ(store->groups().at(0).live_bytes, live);
  EXPECT_LE(store->disk_bytes(), live + 20 * kOverhead + 40 * record_bytes(0));
}

TEST_F(SegmentStoreTest, AFailedAppendLeavesNoTrace) {
  auto store = open_store(fs, clock);
  ASSERT_TRUE(put(*store, kA, key(1), "one").ok());
  fs.fail_call(1, Code::kNoSpace);
  EXPECT_EQ(put(*store, kA, key(2), "two").code(), Code::kNoSpace);
  ASSERT_TRUE(put(*store, kA, key(3), "three").ok());
  store.reset();
  store = open_store(fs, clock);
  EXPECT_EQ(get(*store, kA, key(1)), "one");
  EXPECT_EQ(get(*store, kA, key(2)), "absent");
  EXPECT_EQ(get(*store, kA, key(3)), "three");
}

TEST_F(SegmentStoreTest, WritersReadersAndCompactionRunBesideEachOther) {
  constexpr int kThreads = 3, kKeys = 300;
  auto store = open_store(fs, system_clock(), {.segment_bytes = 4000, .index_every_bytes = 1000});
  const auto value = [](int k) { return std::string(static_cast<size_t>(k % 50), 'v'); };
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int k = t; k < kKeys; k += kThreads) {
          EXPECT_TRUE(put(*store, k % 2 ? kA : kB, key(k), value(k)).ok());
          if (k % 10 == 0) {
            EXPECT_TRUE(store->flush().ok());
          }
          if (k % 25 == 0) {
            EXPECT_TRUE(store->remove(k % 2 ? kA : kB, key(k)).ok());
          }
        }
      });
      threads.emplace_back([&, t] {
        for (int i = 0; i < 2 * kKeys; ++i) {
          const int k = (i * 7 + t) % kKeys;
          const std::string got = get(*store, k % 2 ? kA : kB, key(k));
          EXPECT_TRUE(got == value(k) || got == "absent") << got;
          if (i % 50 == 0) {
            EXPECT_LE(store->groups().size(), 2u);
          }
        }
      });
    }
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) EXPECT_TRUE(store->compact().ok());
    });
  }
  for (int k = 0; k < kKeys; ++k) {
    EXPECT_EQ(get(*store, k % 2 ? kA : kB, key(k)), k % 25 == 0 ? "absent" : value(k));
  }
}

}  // namespace
}  // namespace ndtrain::ndp
