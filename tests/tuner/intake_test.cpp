#include "tuner/intake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "framework/core/rng.h"
#include "ndp/wire/numbers.h"
#include "tests/tuner/claims.h"

namespace ndtrain {
namespace {

using std::chrono::seconds;
using testing::claims;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Time = Intake::Time;

constexpr size_t kRow = 8;

std::string row_of(const Digest& d) { return {d.begin(), d.begin() + kRow}; }

// A store as the Tuner sees it: answers what it is asked, in chunks.
class Store {
 public:
  Store(std::string store, std::vector<PhotoClaim> photos)
      : name(std::move(store)), photos_(std::move(photos)) {
    std::ranges::sort(photos_, {}, &PhotoClaim::digest);
  }

  // Its answers to one message.
  std::vector<wire::FromStore> answer(const wire::ToStore& m) {
    std::vector<wire::FromStore> out;
    if (m.has_job()) *out.emplace_back().mutable_inventory() = inventory(m.job().job());
    if (m.has_wanted()) extract(m.wanted(), out);
    return out;
  }

  void forget(size_t photo) { photos_.erase(photos_.begin() + static_cast<int64_t>(photo)); }
  void spoil(const Digest& d) { bad_.push_back(d); }

  std::string name;
  std::map<uint32_t, uint64_t> sent;

 private:
  wire::Inventory inventory(uint64_t job) const {
    wire::Inventory i;
    i.set_job(job);
    std::map<std::string, uint32_t> names;
    for (const PhotoClaim& p : photos_) {
      i.mutable_digests()->append(p.digest.begin(), p.digest.end());
      i.mutable_sources()->push_back(static_cast<char>(p.source));
      const auto [it, fresh] = names.emplace(p.label, names.size() + 1);
      if (fresh) i.add_names(p.label);
      i.add_labels(it->second);
    }
    i.set_last(true);
    return i;
  }

  void extract(const wire::Wanted& w, std::vector<wire::FromStore>& out) {
    const auto numbers = unpack_numbers(w.numbers(), 1u << 20, 1u << 20).or_throw();
    const auto places = unpack_numbers(w.places(), photos_.size(), 1u << 20).or_throw();
    for (size_t at = 0; at < numbers.size();) {
      wire::Features& f = *out.emplace_back().mutable_features();
      std::vector<uint64_t> chunk;
      for (; at < numbers.size() && chunk.size() < 7; ++at) {
        chunk.push_back(numbers[at]);
        const Digest& d = photos_[places[at]].digest;
        if (std::ranges::find(bad_, d) == bad_.end()) {
          f.mutable_rows()->append(row_of(d));
          continue;
        }
        f.add_unreadable()->set_number(numbers[at]);
        f.mutable_unreadable()->rbegin()->set_reason("cut short");
      }
      f.set_job(w.job());
      f.set_run(w.run());
      f.set_chunk(++chunks_);
      f.set_numbers(pack_numbers(chunk));
      f.set_checksum(xxh3(f.rows().data(), f.rows().size()));
    }
  }

  std::vector<PhotoClaim> photos_;
  std::vector<Digest> bad_;
  uint64_t chunks_ = 0;
};

IntakeRules rules(uint32_t stores, bool allow_missing = false) {
  return {.job = 9,
          .row_bytes = kRow,
          .manifest = {.seed = 1, .runs = 2},
          .stores = stores,
          .store_timeout = seconds(60),
          .allow_missing = allow_missing};
}

// Delivers everything at once, in order.
struct Calm {
  explicit Calm(IntakeRules r) : intake(std::move(r)) {}

  void take(Intake::Actions a) {
    if (a.failed) failed = *a.failed;
    if (a.end_session) ended = *a.end_session;
    for (auto& n : a.notes) notes.push_back(n);
    for (uint32_t run : a.complete) complete.push_back(run);
    for (const Intake::Rows& rows : a.keep) {
      for (const auto& [number, row] : rows.rows) {
        EXPECT_TRUE(spool.emplace(number, row).second) << number << " was kept before";
      }
      take(intake.durable(rows.ticket));
    }
    for (auto& [name, m] : a.send) {
      for (Store* s : here) {
        if (s->name != name) continue;
        for (const auto& reply : s->answer(m)) take(intake.message(now, name, reply));
      }
    }
  }
  void arrive(Store& s) {
    here.push_back(&s);
    take(intake.arrive(now, s.name));
  }
  void leave(Store& s) {
    std::erase(here, &s);
    take(intake.leave(now, s.name));
  }

  Intake intake;
  Time now{0};
  std::vector<Store*> here;
  std::map<uint64_t, std::string> spool;
  std::vector<uint32_t> complete;
  std::vector<std::string> notes;
  std::string failed, ended;
};

void expect_all_rows(const Manifest& m, const std::map<uint64_t, std::string>& spool) {
  ASSERT_EQ(spool.size(), m.size());
  for (const auto& [number, row] : spool) EXPECT_EQ(row, row_of(m.entry(number).digest));
}

TEST(Intake, WaitsForAllStoresThenTakesEachPhotoOnce) {
  Store a("a", claims(0, 60)), b("b", claims(40, 120));
  Calm c(rules(2));
  c.arrive(b);
  EXPECT_FALSE(c.intake.has_manifest());
  c.arrive(a);
  ASSERT_TRUE(c.intake.has_manifest());
  EXPECT_EQ(c.intake.manifest().size(), 120u);
  EXPECT_THAT(c.complete, ElementsAre(0u, 1u, 2u));
  expect_all_rows(c.intake.manifest(), c.spool);
}

TEST(Intake, AnotherHolderTakesOverFromAStoreThatLeaves) {
  Store a("a", claims(0, 100)), b("b", claims(0, 100)), deaf("a", claims(0, 100));
  Calm c(rules(2));
  c.arrive(b);
  // A store that says what it holds, and dies when it is asked for it.
  c.take(c.intake.arrive(c.now, "a"));
  wire::ToStore job;
  job.mutable_job()->set_job(9);
  c.take(c.intake.message(c.now, "a", deaf.answer(job).at(0)));
  EXPECT_TRUE(c.complete.empty());
  c.take(c.intake.leave(c.now, "a"));
  EXPECT_THAT(c.complete, ElementsAre(0u, 1u, 2u));
  expect_all_rows(c.intake.manifest(), c.spool);
}

TEST(Intake, APhotoThatOneHolderCannotReadComesFromAnotherOrIsNamed) {
  Store a("a", claims(0, 50)), b("b", claims(20, 70));
  for (int photo : {5, 30}) a.spoil(testing::claim(photo, "").digest);
  b.spoil(testing::claim(31, "").digest);
  Calm c(rules(2));
  c.arrive(a);
  c.arrive(b);
  EXPECT_THAT(c.complete, ElementsAre(0u, 1u, 2u));
  EXPECT_EQ(c.spool.size(), 69u);
  EXPECT_EQ(c.intake.ledger().unreadable().size(), 1u);
  EXPECT_THAT(c.notes, ::testing::Contains(HasSubstr("cut short")));
}

TEST(Intake, ARestartedTunerAsksOnlyForWhatItLacks) {
  Store a("a", claims(0, 80)), b("b", claims(60, 150));
  Calm c(rules(2));
  c.arrive(a);
  c.arrive(b);
  std::vector<uint64_t> durable;
  for (uint64_t n = 0; n < 150; n += 3) durable.push_back(n);
  Calm next(rules(2));
  next.intake = Intake(rules(2), c.intake.manifest(), c.intake.stores(), durable, seconds(0));
  b.forget(10);  // meanwhile
  next.arrive(b);
  next.arrive(a);
  for (uint64_t n : durable) EXPECT_FALSE(next.spool.contains(n));
  EXPECT_EQ(next.spool.size() + durable.size() + next.intake.ledger().unreadable().size(), 150u);
  EXPECT_LE(next.intake.ledger().unreadable().size(), 1u);
  EXPECT_THAT(next.complete, ElementsAre(0u, 1u, 2u));
}

TEST(Intake, AStoreThatStaysAwayFailsTheJobByNameUnlessItMayBeMissing) {
  for (const bool allow : {false, true}) {
    Store a("a", claims(0, 40)), b("b", claims(30, 70)), mute("b", claims(30, 70));
    Calm c(rules(2, allow));
    c.arrive(a);
    c.take(c.intake.arrive(c.now, "b"));
    wire::ToStore job;
    job.mutable_job()->set_job(9);
    c.take(c.intake.message(c.now, "b", mute.answer(job).at(0)));
    c.take(c.intake.leave(c.now, "b"));
    EXPECT_EQ(c.intake.next(), seconds(60));
    c.take(c.intake.tick(seconds(59)));
    EXPECT_TRUE(c.failed.empty() && c.complete.empty());
    c.take(c.intake.tick(seconds(60)));
    if (allow) {
      EXPECT_THAT(c.complete, ElementsAre(0u, 1u, 2u));
      EXPECT_THAT(c.notes, ::testing::Contains("30 photos are missing"));
    } else {
      EXPECT_THAT(c.failed, HasSubstr("30 photos are only on store b"));
    }
  }
}

TEST(Intake, WhatWasNotAskedForOrDoesNotFitEndsTheSession) {
  Store a("a", claims(0, 40));
  wire::ToStore job;
  job.mutable_job()->set_job(9);
  const auto start = [&](Intake& intake) {
    (void)intake.arrive(seconds(0), "a");
    auto actions = intake.message(seconds(0), "a", a.answer(job).at(0));
    return a.answer(actions.send.at(0).second).at(0);
  };
  const std::vector<std::pair<std::string, std::function<void(wire::Features&)>>> spoilers = {
      {"size", [](auto& f) { f.mutable_rows()->pop_back(); }},
      {"not asked", [](auto& f) { f.set_run(f.run() + 1); }},
      {"not asked", [](auto& f) { f.set_run(1000); }},
      {"not asked", [](auto& f) { f.set_numbers("\x80"); }},
      {"not asked", [](auto& f) { f.add_unreadable()->set_number(1u << 20); }},
      {"checksum", [](auto& f) { (*f.mutable_rows())[3] ^= 1; }}};
  for (const auto& [why, spoil] : spoilers) {
    Intake intake(rules(1));
    wire::FromStore m = start(intake);
    spoil(*m.mutable_features());
    const auto actions = intake.message(seconds(0), "a", m);
    ASSERT_TRUE(actions.end_session) << why;
    EXPECT_THAT(*actions.end_session, HasSubstr(why));
    EXPECT_TRUE(actions.keep.empty());
  }
}

TEST(Intake, AStoreOfManyWrongChecksumsIsLost) {
  Store a("a", claims(0, 40));
  wire::ToStore job;
  job.mutable_job()->set_job(9);
  Intake intake(rules(1));
  Intake::Actions last;
  for (int i = 0; i < Intake::kBadChecksums; ++i) {
    (void)intake.arrive(seconds(0), "a");
    const auto asked = intake.message(seconds(0), "a", a.answer(job).at(0));
    wire::FromStore m = a.answer(asked.send.at(0).second).at(0);
    m.mutable_features()->set_checksum(1);
    last = intake.message(seconds(0), "a", m);
    EXPECT_EQ(last.failed.has_value(), i + 1 == Intake::kBadChecksums);
    if (!last.failed) (void)intake.leave(seconds(0), "a");
  }
  EXPECT_THAT(*last.failed, HasSubstr("only on store a"));
}

TEST(Intake, CountsThatDifferAtTheEndOfARunEndTheSession) {
  Store a("a", claims(0, 40));
  Calm c(rules(1));
  c.arrive(a);
  wire::FromStore m;
  m.mutable_run_done()->set_job(9);
  m.mutable_run_done()->set_run(1);
  m.mutable_run_done()->set_photos(c.intake.manifest().run(1).size());
  c.take(c.intake.message(c.now, "a", m));
  EXPECT_EQ(c.ended, "");
  m.mutable_run_done()->set_photos(3);
  c.take(c.intake.message(c.now, "a", m));
  EXPECT_THAT(c.ended, HasSubstr("has sent 3 photos"));
}

// Three stores whose sessions break, whose messages wait, and a Tuner whose disk takes its time and
// which starts over with what was durable. Whatever happens, every photo has its row, once.
class Storm {
 public:
  explicit Storm(uint64_t seed) : rng_(seed, "intake"), intake_(rules(3)) {
    stores_.push_back({Store("a", claims(0, 80))});
    stores_.push_back({Store("b", claims(50, 130))});
    stores_.push_back({Store("c", claims(0, 150))});
  }

  bool run(int steps) {
    for (int i = 0; i < steps; ++i) {
      const bool calm = i > steps / 2;
      if (calm && intake_.has_manifest() && complete_.size() == 3) return true;
      Line& line = stores_[rng_.next_bits() % stores_.size()];
      switch (rng_.next_bits() % (calm ? 8 : 10)) {
        case 0:
          if (!line.here) connect(line);
          break;
        case 1:
        case 2:
          write();
          break;
        case 8:
          disconnect(line);
          break;
        case 9:
          if (rng_.next_bits() % 8 == 0 && intake_.has_manifest()) restart();
          break;
        default:
          pass(line);
      }
    }
    return false;
  }

  void check() const {
    expect_all_rows(intake_.manifest(), spool_);
    EXPECT_THAT(complete_, ElementsAre(0u, 1u, 2u));
  }

 private:
  struct Line {
    Store store;
    bool here = false;
    std::deque<wire::ToStore> down = {};
    std::deque<wire::FromStore> up = {};
  };

  void connect(Line& line) {
    line.here = true;
    take(intake_.arrive(now_, line.store.name));
  }
  void disconnect(Line& line) {
    if (!std::exchange(line.here, false)) return;
    line.up.clear();
    line.down.clear();
    take(intake_.leave(now_, line.store.name));
  }
  void pass(Line& line) {
    if (!line.down.empty() && rng_.next_bits() % 2) {
      for (auto& m : line.store.answer(line.down.front())) line.up.push_back(std::move(m));
      line.down.pop_front();
    } else if (!line.up.empty()) {
      const wire::FromStore m = line.up.front();
      line.up.pop_front();
      const wire::Features& f = m.features();
      if (m.has_features()) {
        chunks_[{line.store.name, f.chunk()}] =
            unpack_numbers(f.numbers(), 1u << 20, 1u << 20).or_throw();
      }
      take(intake_.message(now_, line.store.name, m));
    }
  }
  // The disk is slow: what is written comes in bursts.
  void write() {
    for (uint64_t n = rng_.next_bits() % 24; n > 18; --n) write_one();
  }
  void write_one() {
    if (writing_.empty()) return;
    const Intake::Rows rows = writing_.front();
    writing_.pop_front();
    for (const auto& [number, row] : rows.rows) {
      const auto [it, fresh] = spool_.emplace(number, row);
      EXPECT_EQ(it->second, row);
    }
    take(intake_.durable(rows.ticket));
  }
  void restart() {
    std::vector<uint64_t> durable;
    for (const auto& [number, row] : spool_) durable.push_back(number);
    intake_ = Intake(rules(3), intake_.manifest(), intake_.stores(), durable, now_);
    writing_.clear();
    complete_.clear();
    for (Line& line : stores_) {
      line.here = false;
      line.up.clear();
      line.down.clear();
    }
    take(intake_.tick(now_));
  }
  void take(Intake::Actions a) {
    EXPECT_FALSE(a.end_session) << *a.end_session;
    EXPECT_FALSE(a.failed) << *a.failed;
    for (uint32_t run : a.complete) {
      complete_.push_back(run);
      for (uint64_t n : intake_.manifest().run(run)) {
        EXPECT_TRUE(spool_.contains(n)) << "run " << run << " is complete without photo " << n;
      }
    }
    for (const auto& [name, m] : a.send) {
      if (!m.has_ack()) continue;
      for (uint64_t n : chunks_.at({name, m.ack().chunk()})) {
        EXPECT_TRUE(spool_.contains(n)) << "photo " << n << " is acknowledged and not durable";
      }
    }
    for (auto& rows : a.keep) writing_.push_back(std::move(rows));
    for (auto& [name, m] : a.send) {
      for (Line& line : stores_) {
        if (line.here && line.store.name == name) line.down.push_back(std::move(m));
      }
    }
  }

  Rng rng_;
  Time now_{0};
  Intake intake_;
  std::vector<Line> stores_;
  std::deque<Intake::Rows> writing_;
  std::map<uint64_t, std::string> spool_;
  std::map<std::pair<std::string, uint64_t>, std::vector<uint64_t>> chunks_;  // numbers
  std::vector<uint32_t> complete_;
};

TEST(Intake, EveryPhotoHasItsRowWhateverBreaks) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Storm storm(seed);
    ASSERT_TRUE(storm.run(12'000)) << "seed " << seed;
    storm.check();
  }
}

}  // namespace
}  // namespace ndtrain
