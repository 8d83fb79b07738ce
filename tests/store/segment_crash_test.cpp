// What a SegmentStore promises when the machine dies, a file is lost or a byte is wrong.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "framework/core/rng.h"
#include "framework/testing/fsync_throws.h"
#include "tests/store/store_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_store;

constexpr int kKeys = 12;
const Digest kGroups[] = {digest("a"), digest("b")};
const SegmentOptions kSmall{.segment_bytes = 700, .index_every_bytes = 500};

// Per (group, key): what a get may return after a crash. Flush leaves the latest value alone.
class Model {
 public:
  using Place = std::pair<int, int>;

  void attempt(Place p, const std::string& value) { may_[p].insert(value); }
  void done(Place p, const std::string& value) { latest_[p] = value; }
  void flushed() {
    for (auto& [place, values] : may_) values = {latest(place)};
  }
  std::string latest(Place p) const {
    const auto it = latest_.find(p);
    return it == latest_.end() ? "absent" : it->second;
  }
  bool allows(Place p, const std::string& got) const {
    const auto it = may_.find(p);
    return it == may_.end() ? got == "absent" : it->second.contains(got);
  }
  void after_crash(Place p, const std::string& got) {
    latest_[p] = got;
    may_[p] = {got};
  }

 private:
  std::map<Place, std::set<std::string>> may_;
  std::map<Place, std::string> latest_;
};

// Random work until `steps` are done or the machine dies; true if it died.
bool work(SegmentStore& store, Model& model, Rng& rng, int steps) {
  for (int step = 0; step < steps; ++step) {
    const Model::Place p{static_cast<int>(rng.next_below(2)),
                         static_cast<int>(rng.next_below(kKeys))};
    const uint64_t what = rng.next_below(20);
    try {
      Status s;
      if (what < 2) {
        s = store.flush();
        if (s.ok()) model.flushed();
      } else if (what == 2) {
        const Result<GcReport> r = rng.next_below(2) ? store.compact() : store.gc();
        s = r.ok() ? Status() : r.status();
      } else if (what < 6) {
        model.attempt(p, model.latest(p));
        model.attempt(p, "absent");
        s = store.remove(kGroups[p.first], key(p.second));
        if (s.ok()) model.done(p, "absent");
      } else {
        const std::string value(rng.next_below(120), static_cast<char>('a' + rng.next_below(26)));
        model.attempt(p, model.latest(p));
        model.attempt(p, value);
        s = put(store, kGroups[p.first], key(p.second), value);
        if (s.ok()) model.done(p, value);
      }
      if (!s.ok()) return true;
    } catch (const FsyncFailed&) {
      return true;
    }
  }
  return false;
}

void check_all(SegmentStore& store, Model& model) {
  for (int g = 0; g < 2; ++g) {
    for (int k = 0; k < kKeys; ++k) {
      const std::string got = get(store, kGroups[g], key(k));
      EXPECT_TRUE(model.allows({g, k}, got)) << "group " << g << " key " << k << ": " << got;
      model.after_crash({g, k}, got);
    }
  }
}

// One life that dies in call `n`; false if it ended before.
bool live_and_die(uint64_t seed, int64_t n, const std::function<void(MemoryFs&, Rng&)>& crash) {
  const FsyncThrows throws;
  MemoryFs fs;
  ManualClock clock;
  Model model;
  Rng rng(seed, "work"), dice(seed, static_cast<uint64_t>(n));
  bool died = false;
  for (int life = 0; life < 3; ++life) {
    fs.die_in_call(life == 0 ? n : 1 + static_cast<int64_t>(dice.next_below(60)));
    clock.advance(std::chrono::seconds(1));
    bool down = false;
    try {
      Result<std::unique_ptr<SegmentStore>> store = SegmentStore::open(fs, clock, kDir, kSmall);
      down = !store.ok() || work(**store, model, rng, 60);
    } catch (const FsyncFailed&) {
      down = true;
    }
    if (life == 0) died = down;
    crash(fs, dice);
    clock.advance(std::chrono::seconds(1));
    auto store = SegmentStore::open(fs, clock, kDir, kSmall);
    if (!store.ok()) {
      ADD_FAILURE() << store.status().message();
      return false;
    }
    check_all(**store, model);
    // Everything still works, and nothing of the past shows through.
    static_cast<void>((*store)->flush().ok());
    static_cast<void>((*store)->compact().ok());
    check_all(**store, model);
    static_cast<void>((*store)->close().ok());
    if (::testing::Test::HasFailure()) return false;
  }
  return died;
}

TEST(SegmentCrash, WhatWasFlushedSurvivesDeathInAnyCall) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    for (int64_t n = 1;; ++n) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " call " + std::to_string(n));
      const auto survives = static_cast<MemoryFs::Survives>((seed + static_cast<uint64_t>(n)) % 3);
      if (!live_and_die(seed, n, [&](MemoryFs& fs, Rng&) { fs.crash(survives); })) break;
    }
    if (HasFailure()) return;
  }
}

TEST(SegmentCrash, WhatWasFlushedSurvivesACrashThatKeepsARandomPart) {
  for (uint64_t seed = 100; seed < 110; ++seed) {
    for (int64_t n = 1;; ++n) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " call " + std::to_string(n));
      if (!live_and_die(seed, n, [](MemoryFs& fs, Rng& dice) { fs.crash(dice); })) break;
    }
    if (HasFailure()) return;
  }
}

// A store of one segment with ten records, closed.
void fill(MemoryFs& fs, const Clock& clock) {
  auto store = open_store(fs, clock);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(put(*store, kGroups[0], key(i), "value " + std::to_string(i)).ok());
  }
  ASSERT_TRUE(store->close().ok());
}

TEST(SegmentCrash, ATailTornAtAnyByteLosesOnlyWhatItTears) {
  ManualClock clock;
  for (const bool with_index : {true, false}) {
    MemoryFs whole;
    fill(whole, clock);
    const std::string path = segment_files(whole).at(0);
    const std::string bytes = whole.read(path).or_throw();
    const auto record = static_cast<size_t>(record_bytes(7));
    for (size_t size = 0; size < bytes.size(); ++size) {
      MemoryFs fs;
      fill(fs, clock);
      support::write_file(fs, path, bytes.substr(0, size));
      if (!with_index) {
        ASSERT_TRUE(fs.remove(join(kDir, "index")).ok());
      }
      auto store = open_store(fs, clock);
      for (size_t i = 0; i < 10; ++i) {
        const bool kept = kSegmentHeaderBytes + (i + 1) * record <= size;
        ASSERT_EQ(get(*store, kGroups[0], key(static_cast<int64_t>(i))),
                  kept ? "value " + std::to_string(i) : "absent")
            << size;
      }
      // What comes next stands on firm ground.
      ASSERT_TRUE(put(*store, kGroups[0], key(99), "next").ok());
      store.reset();
      ASSERT_EQ(get(*open_store(fs, clock), kGroups[0], key(99)), "next") << size;
    }
  }
}

TEST(SegmentCrash, AFlippedByteAnywhereIsNeverReturned) {
  ManualClock clock;
  for (const bool with_index : {true, false}) {
    MemoryFs fs;
    fill(fs, clock);
    const std::string segment = segment_files(fs).at(0), index = join(kDir, "index");
    const std::string bytes = fs.read(segment).or_throw(), index_bytes = fs.read(index).or_throw();
    for (size_t at = 0; at < bytes.size(); ++at) {
      std::string bad = bytes;
      bad[at] ^= 0x40;
      MemoryFs damaged;
      fill(damaged, clock);
      support::write_file(damaged, segment, bad);
      support::write_file(damaged, index, with_index ? index_bytes : "");
      auto store = open_store(damaged, clock);
      int wrong = 0;
      for (int i = 0; i < 10; ++i) {
        const std::string got = get(*store, kGroups[0], key(i));
        if (got == "value " + std::to_string(i)) continue;
        ++wrong;
        ASSERT_TRUE(got == "corrupt" || got == "absent") << at << ": " << got;
        ASSERT_EQ(get(*store, kGroups[0], key(i)), "absent") << "dropped, at " << at;
        ASSERT_TRUE(put(*store, kGroups[0], key(i), "again").ok());
        ASSERT_EQ(get(*store, kGroups[0], key(i)), "again");
      }
      // Padding has no checksum and no meaning; a segment without a header is lost whole.
      const bool padding =
          at >= kSegmentHeaderBytes && (at - kSegmentHeaderBytes) % 80 == kRecordHeaderBytes + 7;
      ASSERT_EQ(wrong, at < kSegmentHeaderBytes ? 10 : padding ? 0 : 1) << at;
    }
  }
}

TEST(SegmentCrash, AFlippedByteInTheIndexCostsNothingButTime) {
  ManualClock clock;
  MemoryFs fs;
  fill(fs, clock);
  const std::string index = join(kDir, "index"), bytes = fs.read(index).or_throw();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const bool cut : {false, true}) {
      std::string bad = cut ? bytes.substr(0, at) : bytes;
      if (!cut) bad[at] ^= 0x01;
      support::write_file(fs, index, bad);
      auto store = open_store(fs, clock);
      for (int i = 0; i < 10; ++i) {
        ASSERT_EQ(get(*store, kGroups[0], key(i)), "value " + std::to_string(i)) << at;
      }
    }
  }
}

TEST(SegmentCrash, AnIndexOfASegmentThatWasReplacedIsNotBelieved) {
  ManualClock clock;
  MemoryFs fs;
  fill(fs, clock);
  const std::string index_bytes = fs.read(join(kDir, "index")).or_throw();
  for (const std::string& path : segment_files(fs)) ASSERT_TRUE(fs.remove(path).ok());
  ASSERT_TRUE(fs.remove(join(kDir, "index")).ok());
  clock.advance(std::chrono::seconds(1));
  {
    auto store = open_store(fs, clock);
    for (int i = 9; i >= 0; --i) {
      ASSERT_TRUE(put(*store, kGroups[0], key(i), "other " + std::to_string(i)).ok());
    }
  }
  support::write_file(fs, join(kDir, "index"), index_bytes);
  auto store = open_store(fs, clock);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(get(*store, kGroups[0], key(i)), "other " + std::to_string(i));
  }
}

}  // namespace
}  // namespace ndtrain::ndp
