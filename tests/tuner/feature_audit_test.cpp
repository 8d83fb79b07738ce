#include "tuner/ingest/feature_audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "tests/sim/simulated_store.h"
#include "tuner/ingest/row_ingest.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using std::chrono::seconds;
using testing::claims;
using testing::expect_all_rows;
using Store = testing::SimulatedStore;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::vector<TensorType> kEightBytes = {{DType::kU8, Shape({1, Store::kRow})}};

Manifest shared_manifest(const std::vector<std::vector<PhotoClaim>>& stores) {
  return {stores, {.seed = 1, .runs = 3}};
}

// What each store is asked for, of runs 0 to 3, where it is asked for nothing else.
std::map<uint32_t, std::set<uint64_t>> asked_of(FeatureAudit& audit, uint32_t stores) {
  std::map<uint32_t, std::set<uint64_t>> asked;
  for (uint32_t store = 0; store < stores; ++store) {
    for (uint32_t run = 0; run <= 3; ++run) {
      std::vector<uint64_t> numbers;
      audit.ask(store, run, numbers);
      EXPECT_TRUE(std::ranges::is_sorted(numbers));
      asked[store].insert(numbers.begin(), numbers.end());
    }
  }
  return asked;
}

TEST(FeatureAudit, DrawsAFewPhotosOfEachStoreThatAnotherHoldsToo) {
  const Manifest m = shared_manifest({claims(0, 60), claims(40, 120), claims(200, 220)});
  FeatureAudit audit(m, {.features = kEightBytes, .seed = 1}, std::vector<bool>(m.size(), true));
  FeatureAudit other(m, {.features = kEightBytes, .seed = 2}, std::vector<bool>(m.size(), true));
  const auto asked = asked_of(audit, 3);
  EXPECT_EQ(asked.at(0), asked.at(1));
  EXPECT_GE(asked.at(0).size(), FeatureAudit::kOfStore);
  EXPECT_LE(asked.at(0).size(), 2 * FeatureAudit::kOfStore);
  EXPECT_THAT(asked.at(2), IsEmpty()) << "nobody else has its photos";
  for (const uint64_t number : asked.at(0)) {
    EXPECT_EQ(m.entry(number).holders.size(), 2U);
    EXPECT_LE(m.entry(number).run, 1U) << "before much is trained on";
  }
  EXPECT_NE(asked_of(other, 3).at(0), asked.at(0)) << "stores cannot know which";
}

// Rows of an early cut are large, and all of a photo's are held until they are compared.
TEST(FeatureAudit, DrawsFewerPhotosWhereTheirRowsWouldTakeMuchMemory) {
  const Manifest m = shared_manifest({claims(0, 60), claims(0, 60)});
  const auto drawn = [&](int64_t bytes) {
    FeatureAudit audit(m, {.features = {{DType::kU8, Shape({1, bytes})}}, .seed = 1},
                       std::vector<bool>(m.size(), true));
    return asked_of(audit, 2).at(0).size();
  };
  const auto half = static_cast<int64_t>(FeatureAudit::kHeldBytes / FeatureAudit::kAskers / 2);
  EXPECT_GT(drawn(1), 2U);
  EXPECT_EQ(drawn(half), 2U);
  EXPECT_EQ(drawn(half + 1), 1U);
  EXPECT_EQ(drawn(2 * half + 2), 0U) << "not one";
}

TEST(FeatureAudit, DrawsNoPhotoWhoseRowIsThere) {
  const Manifest m = shared_manifest({claims(0, 60), claims(0, 60)});
  FeatureAudit audit(m, {.features = kEightBytes}, std::vector<bool>(m.size(), false));
  EXPECT_THAT(audit.pending(), IsEmpty());
}

TEST(FeatureAudit, AsksForAPhotoOnceWhoeverAsks) {
  const Manifest m = shared_manifest({claims(0, 60), claims(0, 60)});
  FeatureAudit audit(m, {.features = kEightBytes}, std::vector<bool>(m.size(), true));
  const std::span<const uint64_t> run = m.run(0);
  std::vector<uint64_t> all(run.begin(), run.end()), again = all;
  audit.ask(0, 0, all);
  EXPECT_TRUE(std::ranges::equal(all, run)) << "what it is asked for anyway is no other photo";
  audit.ask(0, 0, again);
  EXPECT_LT(again.size(), all.size()) << "what it was asked for is on its way";
  for (const uint64_t number : again) EXPECT_FALSE(audit.awaits(0, number));
}

// Each store answers with its own byte, 100 for one that is right.
std::optional<FeatureAudit::Finding> finding_of(const std::vector<char>& bytes, bool last = true) {
  const std::vector<std::vector<PhotoClaim>> all(bytes.size(), claims(0, 60));
  const Manifest m = shared_manifest(all);
  FeatureAudit audit(m, {.features = kEightBytes}, std::vector<bool>(m.size(), true));
  for (const auto& [store, numbers] : asked_of(audit, static_cast<uint32_t>(bytes.size()))) {
    for (const uint64_t number : numbers) {
      std::string row = Store::row_of(m.entry(number).digest);
      row[0] = bytes[store];
      audit.answer(store, number, row);
    }
  }
  EXPECT_THAT(audit.pending(), IsEmpty());
  EXPECT_GT(audit.compared(), 0U);
  return audit.finding(last);
}

TEST(FeatureAudit, FindsTheStoreThatDisagreesWithTwoOthers) {
  EXPECT_FALSE(finding_of({100, 100, 100}));
  EXPECT_EQ(finding_of({100, 17, 100}, false)->store, 1U) << "at once";
  EXPECT_EQ(finding_of({100, 100, 17})->store, 2U);
}

TEST(FeatureAudit, OfTwoThatDisagreeNamesBothAtTheEnd) {
  EXPECT_FALSE(finding_of({100, 17}, false)) << "another photo may tell";
  const auto f = finding_of({100, 17});
  ASSERT_TRUE(f);
  EXPECT_FALSE(f->store);
  EXPECT_EQ(std::set({f->a, f->b}), std::set({0U, 1U}));
  EXPECT_GT(f->difference, FeatureAudit::kTolerance);
}

TEST(FeatureAudit, WhatCannotBeAnsweredIsNotWaitedFor) {
  const Manifest m = shared_manifest({claims(0, 60), claims(0, 60)});
  FeatureAudit audit(m, {.features = kEightBytes}, std::vector<bool>(m.size(), true));
  (void)asked_of(audit, 2);
  audit.leave(1);
  for (const auto& [store, run] : audit.pending()) EXPECT_EQ(store, 0U);
  audit.leave(0);
  EXPECT_THAT(audit.pending(), IsEmpty());
  EXPECT_FALSE(audit.finding(true));
}

// By a walk over all that were drawn, after any sequence of calls.
TEST(FeatureAudit, WaitsForWhatNobodyHasAnsweredAndAsksForWhatNobodyWasAsked) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Manifest m = shared_manifest({claims(0, 60), claims(20, 90), claims(0, 90), {}});
    const FeatureAudit::What what{.features = kEightBytes, .seed = seed};
    const std::vector<bool> all(m.size(), true);
    FeatureAudit whole(m, what, all), audit(m, what, all);
    std::map<std::pair<uint32_t, uint64_t>, bool> drawn;  // store and photo: is it waited for?
    for (const auto& [store, numbers] : asked_of(whole, 4)) {
      for (const uint64_t number : numbers) drawn[{store, number}] = true;
    }
    ASSERT_FALSE(drawn.empty());
    std::set<std::pair<uint32_t, uint64_t>> asked;
    Rng rng(seed, "calls");
    for (int step = 0; step < 80; ++step) {
      const auto store = static_cast<uint32_t>(rng.next_below(4));
      const auto at = std::next(drawn.begin(), static_cast<int64_t>(rng.next_below(drawn.size())));
      const auto [other, number] = at->first;
      const auto run = static_cast<uint32_t>(rng.next_below(4));
      std::vector<uint64_t> numbers, expected;
      switch (rng.next_below(8)) {
        case 0:
          if (rng.next_below(4) > 0) break;
          audit.leave(store);
          for (auto& [of, waits] : drawn) waits &= of.first != store;
          break;
        case 1:
          audit.leave(other, number);
          at->second = false;
          break;
        case 2:
        case 3:
          audit.ask(store, run, numbers);
          for (const auto& [of, waits] : drawn) {
            if (of.first != store || m.entry(of.second).run != run || !waits) continue;
            if (asked.insert(of).second) expected.push_back(of.second);
          }
          ASSERT_EQ(numbers, expected);
          break;
        default:
          ASSERT_EQ(audit.awaits(other, number), at->second && asked.contains(at->first));
          if (!asked.contains(at->first)) break;
          audit.answer(other, number, Store::row_of(m.entry(number).digest));
          at->second = false;
      }
      std::set<std::pair<uint32_t, uint32_t>> pending;
      for (const auto& [of, waits] : drawn) {
        if (waits) pending.emplace(of.first, m.entry(of.second).run);
      }
      ASSERT_EQ(audit.pending(), pending) << "seed " << seed << ", step " << step;
      ASSERT_EQ(audit.waits(), !pending.empty());
    }
  }
}

TEST(FeatureAudit, AStoreThatLeavesTwiceIsComparedOnce) {
  const Manifest m = shared_manifest({claims(0, 60), claims(0, 60), claims(0, 60)});
  FeatureAudit audit(m, {.features = kEightBytes}, std::vector<bool>(m.size(), true));
  for (const auto& [store, numbers] : asked_of(audit, 3)) {
    if (store == 2) continue;
    for (const uint64_t n : numbers) audit.answer(store, n, Store::row_of(m.entry(n).digest));
  }
  audit.leave(2);
  const size_t compared = audit.compared();
  EXPECT_GT(compared, 0U);
  audit.leave(2);
  EXPECT_EQ(audit.compared(), compared);
}

// Stores that deliver everything at once, in order; or, held up, nothing.
struct Audited {
  explicit Audited(size_t n, bool audit = true) : ingest(rules(audit)), stores(n) {}
  static IngestRules rules(bool audit) {
    wire::Job job;
    job.set_job(9);
    IngestRules r{.job = job, .row_bytes = Store::kRow, .manifest = {.seed = 1, .runs = 2}};
    if (audit) r.audit = {.features = kEightBytes, .seed = 3};
    return r;
  }

  void take(RowIngest::Actions a) {
    if (a.manifest_made) return take(ingest.begin({}, {}));
    if (a.failed) failed = *a.failed;
    if (a.wrong) wrong = a.wrong->store.value_or("one of two");
    EXPECT_FALSE(a.end_session) << *a.end_session;
    for (auto& n : a.notes) notes.push_back(n);
    for (const uint32_t run : a.complete) complete.push_back(run);
    for (const RowIngest::Rows& rows : a.keep) {
      for (const auto& [number, row] : rows.rows) {
        EXPECT_TRUE(spool.emplace(number, row).second) << number << " was kept before";
      }
      take(ingest.durable(rows.ticket));
    }
    for (auto& [name, m] : a.send) messages.emplace_back(name, m);
    if (!ingest.has_manifest() && ingest.ready().size() == stores) {
      take(ingest.count_in(ingest.ready()));
    }
  }
  void run() {
    while (!messages.empty()) {
      const auto [name, m] = messages.front();
      messages.pop_front();
      if (held_up.contains(name) && m.has_wanted()) {
        held_back.push_back(m);
        continue;
      }
      for (Store* s : here) {
        if (s->name != name) continue;
        for (const auto& reply : s->answer(m)) {
          delivered += reply.has_rows() && !reply.rows().rows().empty()
                           ? reply.rows().rows().size() / Store::kRow
                           : 0;
          take(ingest.message(now, name, reply));
        }
      }
    }
  }
  void arrive(const std::vector<Store*>& all) {
    for (Store* s : all) {
      here.push_back(s);
      take(ingest.arrive(now, s->name));
    }
    run();
  }

  RowIngest ingest;
  size_t stores;
  RowIngest::Time now{0};
  std::vector<Store*> here;
  std::deque<std::pair<std::string, wire::ToStore>> messages;
  std::set<std::string> held_up;
  std::vector<wire::ToStore> held_back;
  std::map<uint64_t, std::string> spool;
  std::vector<uint32_t> complete;
  std::vector<std::string> notes;
  std::string failed, wrong;
  size_t delivered = 0;  // rows
};

TEST(AuditedIngest, OfStoresThatAgreeTakesEachPhotoOnceAndAsksForAFewMore) {
  Store a("a", claims(0, 60)), b("b", claims(40, 120));
  Audited job(2);
  job.arrive({&a, &b});
  EXPECT_EQ(job.failed, "");
  EXPECT_THAT(job.complete, ElementsAre(0U, 1U, 2U));
  expect_all_rows(job.ingest.manifest(), job.spool);
  EXPECT_GT(job.delivered, job.spool.size());
  // The last ones are asked of both anyway.
  EXPECT_LE(job.delivered, job.spool.size() + FeatureAudit::kAskers * FeatureAudit::kOfStore);
}

TEST(AuditedIngest, OfAStoreThatIsWrongTheJobEndsBeforeAnythingIsTrainedOnAndItIsNamed) {
  Store a("a", claims(0, 60)), b("b", claims(0, 60)), evil("evil", claims(0, 60));
  evil.make_wrong_rows();
  Audited job(3);
  job.arrive({&a, &b, &evil});
  EXPECT_EQ(job.wrong, "evil");
  EXPECT_THAT(job.failed, AllOf(HasSubstr("store evil makes other features than store "),
                                HasSubstr("evil is drained"), HasSubstr("0.01 may be"),
                                HasSubstr("ndtrain job resume 9 begins anew"),
                                HasSubstr("ndtrain store drain evil --undo")));
  EXPECT_THAT(job.complete, IsEmpty());
}

TEST(AuditedIngest, OfTwoStoresThatDisagreeBothAreNamedAndNoneIsBelieved) {
  Store a("a", claims(0, 60)), b("b", claims(0, 60));
  b.make_wrong_rows();
  Audited job(2);
  job.arrive({&a, &b});
  EXPECT_EQ(job.wrong, "one of two");
  EXPECT_THAT(job.failed, HasSubstr("no third store says which of the two is wrong"));
  EXPECT_THAT(job.complete, IsEmpty());
}

TEST(AuditedIngest, IsWhatFindsIt) {
  Store a("a", claims(0, 60)), b("b", claims(0, 60)), evil("evil", claims(0, 60));
  evil.make_wrong_rows();
  Audited job(3, false);
  job.arrive({&a, &b, &evil});
  EXPECT_EQ(job.failed, "");
  EXPECT_THAT(job.complete, ElementsAre(0U, 1U, 2U));
}

// It holds no photo alone, and answers none: the others' rows do after a while.
TEST(AuditedIngest, OfAStoreThatDoesNotAnswerGoesOnAfterAWhileAndSaysSo) {
  Store a("a", claims(0, 60)), mute("mute", claims(0, 60));
  Audited job(2);
  job.held_up = {"mute"};
  job.arrive({&a, &mute});
  EXPECT_FALSE(job.held_back.empty());
  EXPECT_EQ(job.spool.size(), job.ingest.manifest().size()) << "a is asked for all of it";
  EXPECT_THAT(job.complete, IsEmpty());
  job.now += RowIngest::kAuditPatience - seconds(1);
  job.take(job.ingest.tick(job.now));
  EXPECT_THAT(job.complete, IsEmpty());
  EXPECT_EQ(job.ingest.next(), job.now + seconds(1));
  job.now += seconds(1);
  job.take(job.ingest.tick(job.now));
  EXPECT_THAT(job.complete, ElementsAre(0U, 1U, 2U));
  EXPECT_THAT(job.notes, Contains(HasSubstr("the features of mute are not compared")));
}

TEST(AuditedIngest, OfSeveralStoresThatDoNotAnswerNamesEach) {
  Store a("a", claims(0, 60)), mute("mute", claims(0, 60)), te("te", claims(0, 60));
  Audited job(3);
  job.held_up = {"mute", "te"};
  job.arrive({&a, &mute, &te});
  job.take(job.ingest.tick(job.now));
  job.now += RowIngest::kAuditPatience;
  job.take(job.ingest.tick(job.now));
  EXPECT_THAT(job.notes, Contains(HasSubstr("the features of mute, te are not compared")));
}

TEST(AuditedIngest, OfAStoreThatLeavesGoesOnWithoutIt) {
  Store a("a", claims(0, 60)), mute("mute", claims(0, 60));
  Audited job(2);
  job.held_up = {"mute"};
  job.arrive({&a, &mute});
  job.take(job.ingest.leave(job.now, "mute"));
  job.run();
  EXPECT_THAT(job.complete, ElementsAre(0U, 1U, 2U));
  EXPECT_THAT(job.notes, Not(Contains(HasSubstr("not compared"))));
}

// It has been told of photos in a session that is over, and is told of them once more.
TEST(AuditedIngest, OfAStoreThatComesBackAsksForNothingTwice) {
  Store a("a", claims(0, 60)), b("b", claims(0, 100));
  Audited job(2);
  job.held_up = {"b"};
  job.arrive({&a, &b});
  job.take(job.ingest.leave(job.now, "b"));
  job.held_up.clear();
  job.take(job.ingest.arrive(job.now, "b"));
  job.run();
  EXPECT_EQ(job.failed, "");
  EXPECT_THAT(job.complete, ElementsAre(0U, 1U, 2U));
  expect_all_rows(job.ingest.manifest(), job.spool);
}

}  // namespace
}  // namespace ndtrain::tuner
