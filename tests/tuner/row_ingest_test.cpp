#include "tuner/ingest/row_ingest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "framework/core/hash.h"
#include "framework/core/limits.h"
#include "ndp/wire/numbers.h"
#include "ndp/wire/protocol.h"
#include "tests/sim/simulated_store.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using std::chrono::seconds;
using testing::claims;
using testing::expect_all_rows;
using Store = testing::SimulatedStore;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Time = RowIngest::Time;

IngestRules rules(bool allow_missing = false) {
  wire::Job job;
  job.set_job(9);
  return {.job = job,
          .row_bytes = Store::kRow,
          .manifest = {.seed = 1, .runs = 2},
          .lost_after = seconds(60),
          .allow_missing = allow_missing};
}

// Delivers everything at once, in order.
struct Calm {
  Calm(IngestRules r, size_t n) : ingest(std::move(r)), stores(n) {}

  void take(RowIngest::Actions a) {
    if (a.manifest_made) {
      for (auto& n : a.notes) notes.push_back(n);
      return take(ingest.begin({}, {}));
    }
    if (a.failed) failed = *a.failed;
    if (a.end_session) ended = *a.end_session;
    for (auto& n : a.notes) notes.push_back(n);
    for (uint32_t run : a.complete) complete.push_back(run);
    for (const RowIngest::Rows& rows : a.keep) {
      for (const auto& [number, row] : rows.rows) {
        EXPECT_TRUE(spool.emplace(number, row).second) << number << " was kept before";
      }
      take(ingest.durable(rows.ticket));
    }
    for (auto& [name, m] : a.send) {
      for (Store* s : here) {
        if (s->name != name) continue;
        for (const auto& reply : s->answer(m)) take(ingest.message(now, name, reply));
      }
    }
    if (ingest.has_manifest() || ingest.ready().size() < stores) return;
    take(ingest.count_in(ingest.ready()));
  }
  void arrive(Store& s) {
    here.push_back(&s);
    take(ingest.arrive(now, s.name));
  }
  void leave(Store& s) {
    std::erase(here, &s);
    take(ingest.leave(now, s.name));
  }

  RowIngest ingest;
  size_t stores;  // that are counted in
  Time now{0};
  std::vector<Store*> here;
  std::map<uint64_t, std::string> spool;
  std::vector<uint32_t> complete;
  std::vector<std::string> notes;
  std::string failed, ended;
};

TEST(RowIngest, CountsInTheStoresThatItIsToldAndTakesEachPhotoOnce) {
  Store a("a", claims(0, 60)), b("b", claims(40, 120));
  Calm c(rules(), 2);
  c.arrive(b);
  EXPECT_FALSE(c.ingest.has_manifest());
  c.arrive(a);
  ASSERT_TRUE(c.ingest.has_manifest());
  EXPECT_EQ(c.ingest.manifest().size(), 120u);
  EXPECT_THAT(c.complete, ElementsAre(0u, 1u, 2u));
  expect_all_rows(c.ingest.manifest(), c.spool);
}

TEST(RowIngest, AStoreThatComesBackWithPhotosOfAnotherTakesOverFromIt) {
  Store a("a", claims(0, 60)), b("b", claims(60, 120)), all("a", claims(0, 120));
  Calm c(rules(), 2);
  c.arrive(b);
  std::erase(c.here, &b);  // it answers no more
  c.arrive(a);
  EXPECT_THAT(c.complete, ::testing::IsEmpty());
  c.leave(b);
  c.leave(a);
  c.arrive(all);
  EXPECT_EQ(c.failed, "");
  EXPECT_THAT(c.complete, ElementsAre(0u, 1u, 2u));
  expect_all_rows(c.ingest.manifest(), c.spool);
}

TEST(RowIngest, AStoreThatIsNotCountedInIsTooLateAndIsNamedOnce) {
  Store a("a", claims(0, 60)), b("b", claims(40, 120)), c("c", claims(0, 9));
  Calm calm(rules(), 3);
  calm.arrive(a);
  calm.arrive(b);
  EXPECT_THAT(calm.ingest.ready(), ElementsAre("a", "b"));
  const std::vector<std::string> both = {"a", "b"};
  calm.take(calm.ingest.count_in(both));
  for (int i = 0; i < 2; ++i) {
    calm.arrive(c);
    calm.leave(c);
  }
  EXPECT_THAT(calm.ingest.stores(), ElementsAre("a", "b"));
  EXPECT_EQ(calm.spool.size(), 120U);
  EXPECT_EQ(std::ranges::count(calm.notes, "store c is too late for this job"), 1);
}

TEST(RowIngest, RowsThatFitNoMessageArePutTogether) {
  constexpr size_t kLarge = kWholeRow + kRowPiece + 1;
  for (const bool varies : {false, true}) {
    Store a("a", claims(0, 4));
    a.make_rows({.bytes = kLarge, .varies = varies});
    IngestRules r = rules();
    r.row_bytes = varies ? 0 : kLarge;
    Calm c(r, 1);
    c.arrive(a);
    EXPECT_EQ(c.ended, "");
    EXPECT_THAT(c.complete, ElementsAre(0u, 1u, 2u));
    EXPECT_TRUE(a.idle()) << "a piece was not acknowledged";
    for (auto& [number, row] : c.spool) {
      EXPECT_EQ(row.size(), kLarge);
      row.resize(Store::kRow);
    }
    expect_all_rows(c.ingest.manifest(), c.spool);
  }
}

TEST(RowIngest, PiecesThatAreNotOfOneRowEndTheSessionAndLeaveNothingBehind) {
  constexpr size_t kLarge = kWholeRow + 1;
  Store a("a", claims(0, 9));
  IngestRules r = rules();
  r.row_bytes = 0;
  const auto begun = [&](Calm& c) {
    c.ended.clear();
    c.take(c.ingest.arrive(c.now, "a"));
    wire::ToStore job;
    job.mutable_job()->set_job(9);
    c.take(c.ingest.message(c.now, "a", a.answer(job).at(0)));  // and says nothing more
  };
  const auto piece = [&](Calm& c, uint64_t number, size_t bytes, size_t of) {
    wire::FromStore m;
    wire::Rows& rows = *m.mutable_rows();
    rows.set_job(9);
    rows.set_run(c.ingest.manifest().entry(number).run);
    rows.set_numbers(pack_numbers(std::vector<uint64_t>{number}));
    rows.set_rows(std::string(bytes, 'x'));
    rows.add_lengths(static_cast<uint32_t>(of));
    rows.set_checksum(xxh3(rows.rows().data(), bytes));
    c.take(c.ingest.message(c.now, "a", std::move(m)));
    return c.ended;
  };
  Calm c(r, 1);
  begun(c);
  EXPECT_EQ(piece(c, 0, 100, kLarge), "");
  EXPECT_THAT(piece(c, 1, 100, kLarge), HasSubstr("do not fit")) << "in the middle of another";
  begun(c);
  EXPECT_EQ(piece(c, 0, 100, kLarge), "");
  EXPECT_THAT(piece(c, 1, 3, 3), HasSubstr("not asked for")) << "a whole one in the middle";
  begun(c);
  EXPECT_EQ(piece(c, 0, kLarge - 1, kLarge), "");
  EXPECT_THAT(piece(c, 0, 2, kLarge), HasSubstr("do not fit")) << "too much";
  begun(c);
  EXPECT_THAT(piece(c, 0, 2, kWholeRow), HasSubstr("another size")) << "would have fitted";
  begun(c);
  const auto most = static_cast<size_t>(limits::kPhotoFile);
  EXPECT_THAT(piece(c, 0, 100, most + 1), HasSubstr("do not fit")) << "larger than a photo";
  for (const size_t of : {most - 1, most}) {
    begun(c);
    EXPECT_EQ(piece(c, 0, 100, of), "");
  }
  begun(c);
  EXPECT_EQ(piece(c, 0, kLarge - 1, kLarge), "") << "what came before it has been dropped";
  EXPECT_TRUE(c.spool.empty());
  EXPECT_EQ(piece(c, 0, 1, kLarge), "");
  EXPECT_EQ(c.spool.at(0).size(), kLarge);
}

// A store that says what it holds, and nothing more when it is asked for it.
TEST(RowIngest, AnotherHolderTakesOverFromAStoreThatSaysNothingOrLeaves) {
  for (const bool leaves : {false, true}) {
    Store b("b", claims(0, 100)), deaf("a", claims(0, 100));
    Calm c(rules(), 2);
    if (!leaves) c.arrive(b);
    c.take(c.ingest.arrive(c.now, "a"));
    wire::ToStore job;
    job.mutable_job()->set_job(9);
    c.take(c.ingest.message(c.now, "a", deaf.answer(job).at(0)));
    if (leaves) {
      c.take(c.ingest.arrive(c.now, "b"));
      c.take(c.ingest.message(c.now, "b", b.answer(job).at(0)));
      EXPECT_TRUE(c.complete.empty());
      c.take(c.ingest.leave(c.now, "a"));
      EXPECT_TRUE(c.complete.empty());
      c.arrive(b);  // it begins another session
    }
    EXPECT_THAT(c.complete, ElementsAre(0u, 1u, 2u));
    expect_all_rows(c.ingest.manifest(), c.spool);
  }
}

// Of several stores with all photos each answers for what it makes, however few it is asked for at
// a time.
TEST(RowIngest, StoresAreAskedForAPartAtATime) {
  IngestRules r = rules();
  r.portion = 3;
  Store a("a", claims(0, 200)), b("b", claims(0, 200));
  Calm c(r, 2);
  c.arrive(a);
  c.arrive(b);
  EXPECT_THAT(c.complete, ElementsAre(0u, 1u, 2u));
  expect_all_rows(c.ingest.manifest(), c.spool);
}

TEST(RowIngest, APhotoThatOneHolderCannotReadComesFromAnotherOrIsNamed) {
  Store a("a", claims(0, 50)), b("b", claims(20, 70));
  for (int photo : {5, 30}) a.spoil(testing::claim(photo, "").digest);
  b.spoil(testing::claim(31, "").digest);
  Calm c(rules(), 2);
  c.arrive(a);
  c.arrive(b);
  EXPECT_THAT(c.complete, ElementsAre(0u, 1u, 2u));
  EXPECT_EQ(c.spool.size(), 69u);
  EXPECT_EQ(c.ingest.assignment().unreadable().size(), 1u);
  EXPECT_THAT(c.notes, ::testing::Contains(HasSubstr("cut short")));
  const std::vector<UnreadablePhoto> bad = c.ingest.unreadable_photos();
  ASSERT_EQ(bad.size(), 1u) << "of photos 30 and 31 there was another copy";
  EXPECT_EQ(bad[0].photo, testing::claim(5, "").digest);
  EXPECT_EQ(bad[0].store, "a");
  EXPECT_THAT(bad[0].why, HasSubstr("cut short"));
}

TEST(RowIngest, ARestartedTunerAsksOnlyForWhatItLacks) {
  Store a("a", claims(0, 80)), b("b", claims(60, 150));
  Calm c(rules(), 2);
  c.arrive(a);
  c.arrive(b);
  std::vector<uint64_t> durable;
  for (uint64_t n = 0; n < 150; n += 3) durable.push_back(n);
  Calm next(rules(), 2);
  next.ingest = RowIngest(rules(), c.ingest.manifest(), c.ingest.stores(), seconds(0));
  next.take(next.ingest.begin(durable, {}));
  b.forget(10);  // meanwhile
  next.arrive(b);
  next.arrive(a);
  for (uint64_t n : durable) EXPECT_FALSE(next.spool.contains(n));
  EXPECT_EQ(next.spool.size() + durable.size() + next.ingest.assignment().unreadable().size(),
            150u);
  EXPECT_LE(next.ingest.assignment().unreadable().size(), 1u);
  EXPECT_THAT(next.complete, ElementsAre(0u, 1u, 2u));
}

TEST(RowIngest, AStoreThatStaysAwayFailsTheJobByNameUnlessItMayBeMissing) {
  for (const bool allow : {false, true}) {
    Store a("a", claims(0, 40)), b("b", claims(30, 70)), mute("b", claims(30, 70));
    Calm c(rules(allow), 2);
    c.arrive(a);
    c.take(c.ingest.arrive(c.now, "b"));
    wire::ToStore job;
    job.mutable_job()->set_job(9);
    c.take(c.ingest.message(c.now, "b", mute.answer(job).at(0)));
    c.take(c.ingest.leave(c.now, "b"));
    while (c.ingest.next() < seconds(60)) c.take(c.ingest.tick(c.ingest.next()));
    EXPECT_EQ(c.ingest.next(), seconds(60));
    c.take(c.ingest.tick(seconds(59)));
    EXPECT_TRUE(c.failed.empty() && c.complete.empty());
    c.take(c.ingest.tick(seconds(60)));
    if (allow) {
      EXPECT_THAT(c.complete, ElementsAre(0u, 1u, 2u));
      EXPECT_THAT(c.notes, ::testing::Contains("30 photos are missing"));
    } else {
      EXPECT_THAT(c.failed, HasSubstr("30 photos are only on store b"));
    }
  }
}

TEST(RowIngest, AStoreIsNotAwayWhileTheTunerItselfIsSuspended) {
  Store a("a", claims(0, 40)), b("b", claims(30, 70)), mute("b", claims(30, 70));
  Calm c(rules(), 2);
  c.arrive(a);
  c.take(c.ingest.arrive(c.now, "b"));
  wire::ToStore job;
  job.mutable_job()->set_job(9);
  c.take(c.ingest.message(c.now, "b", mute.answer(job).at(0)));
  c.take(c.ingest.leave(c.now, "b"));
  c.take(c.ingest.tick(seconds(5)));
  c.take(c.ingest.tick(seconds(4000)));
  EXPECT_EQ(c.failed, "");
  c.arrive(b);
  EXPECT_THAT(c.complete, ElementsAre(0u, 1u, 2u));
  // Being away again begins from nothing.
  c.take(c.ingest.leave(seconds(4001), "b"));
  EXPECT_EQ(c.ingest.next(), seconds(4001) + RowIngest::kStep);
}

TEST(RowIngest, WhatWasNotAskedForOrDoesNotFitEndsTheSession) {
  Store a("a", claims(0, 40));
  wire::ToStore job;
  job.mutable_job()->set_job(9);
  const auto start = [&](RowIngest& ingest) {
    (void)ingest.arrive(seconds(0), "a");
    (void)ingest.message(seconds(0), "a", a.answer(job).at(0));
    (void)ingest.count_in(ingest.ready());
    auto actions = ingest.begin({}, {});
    return a.answer(actions.send.at(0).second).at(0);
  };
  const std::vector<std::pair<std::string, std::function<void(wire::Rows&)>>> spoilers = {
      {"size", [](auto& f) { f.mutable_rows()->pop_back(); }},
      {"not asked", [](auto& f) { f.set_run(f.run() + 1); }},
      {"not asked", [](auto& f) { f.set_run(1000); }},
      {"not asked", [](auto& f) { f.set_numbers("\x80"); }},
      {"not asked", [](auto& f) { f.add_unreadable()->set_number(1u << 20); }},
      {"checksum", [](auto& f) { (*f.mutable_rows())[3] ^= 1; }}};
  for (const auto& [why, spoil] : spoilers) {
    RowIngest ingest(rules());
    wire::FromStore m = start(ingest);
    spoil(*m.mutable_rows());
    const auto actions = ingest.message(seconds(0), "a", m);
    ASSERT_TRUE(actions.end_session) << why;
    EXPECT_THAT(*actions.end_session, HasSubstr(why));
    EXPECT_TRUE(actions.keep.empty());
  }
}

TEST(RowIngest, AStoreOfManyWrongChecksumsIsLost) {
  Store a("a", claims(0, 40));
  wire::ToStore job;
  job.mutable_job()->set_job(9);
  RowIngest ingest(rules());
  RowIngest::Actions last;
  for (int i = 0; i < RowIngest::kBadChecksums; ++i) {
    (void)ingest.arrive(seconds(0), "a");
    auto asked = ingest.message(seconds(0), "a", a.answer(job).at(0));
    if (!ingest.has_manifest()) {
      (void)ingest.count_in(ingest.ready());
      asked = ingest.begin({}, {});
    }
    wire::FromStore m = a.answer(asked.send.at(0).second).at(0);
    m.mutable_rows()->set_checksum(1);
    last = ingest.message(seconds(0), "a", m);
    EXPECT_EQ(last.failed.has_value(), i + 1 == RowIngest::kBadChecksums);
    if (!last.failed) (void)ingest.leave(seconds(0), "a");
  }
  EXPECT_THAT(*last.failed, HasSubstr("only on store a"));
}

// A link that now and then carries a wrong bit does not end a job, however long that takes.
TEST(RowIngest, AStoreOfWrongChecksumsBetweenRightRowsIsNotLost) {
  Store a("a", claims(0, 300));
  wire::ToStore job;
  job.mutable_job()->set_job(9);
  RowIngest ingest(rules());
  for (int i = 0; i < 2 * RowIngest::kBadChecksums; ++i) {
    (void)ingest.arrive(seconds(0), "a");
    auto asked = ingest.message(seconds(0), "a", a.answer(job).at(0));
    if (!ingest.has_manifest()) {
      (void)ingest.count_in(ingest.ready());
      asked = ingest.begin({}, {});
    }
    std::vector<wire::FromStore> rows = a.answer(asked.send.at(0).second);
    ASSERT_GE(rows.size(), 2U);
    EXPECT_FALSE(ingest.message(seconds(0), "a", rows[0]).end_session);
    rows[1].mutable_rows()->set_checksum(1);
    const auto wrong = ingest.message(seconds(0), "a", rows[1]);
    EXPECT_THAT(wrong.end_session.value_or("none"), HasSubstr("checksum"));
    EXPECT_FALSE(wrong.failed) << *wrong.failed;
    (void)ingest.leave(seconds(0), "a");
  }
}

// A store whose every feature is NaN holds the same photos as another.
TEST(RowIngest, RowsThatAreNoNumbersAreRefusedByTheNameOfTheStoreAndAskedOfAnother) {
  Store a("honest", claims(0, 60)), evil("evil", claims(0, 60));
  const std::string nan(Store::kRow, '\xff');
  IngestRules r = rules();
  r.check = [&](std::string_view row) { return row == nan ? "a feature is NaN or Inf" : ""; };
  RowIngest ingest(r);
  std::map<uint64_t, std::string> spool;
  std::vector<std::string> notes;
  std::vector<uint32_t> complete;
  std::deque<RowIngest::Actions> todo = {ingest.arrive(seconds(0), "honest"),
                                         ingest.arrive(seconds(0), "evil")};
  for (; !todo.empty(); todo.pop_front()) {
    const RowIngest::Actions actions = todo.front();
    EXPECT_EQ(actions.failed.value_or("") + actions.end_session.value_or(""), "");
    if (actions.manifest_made) todo.push_back(ingest.begin({}, {}));
    notes.insert(notes.end(), actions.notes.begin(), actions.notes.end());
    complete.insert(complete.end(), actions.complete.begin(), actions.complete.end());
    for (const RowIngest::Rows& rows : actions.keep) {
      spool.insert(rows.rows.begin(), rows.rows.end());
      todo.push_back(ingest.durable(rows.ticket));
    }
    for (const auto& [name, m] : actions.send) {
      for (wire::FromStore& reply : (name == "honest" ? a : evil).answer(m)) {
        if (name == "evil" && reply.has_rows()) {
          std::string& bytes = *reply.mutable_rows()->mutable_rows();
          std::ranges::fill(bytes, '\xff');
          reply.mutable_rows()->set_checksum(xxh3(bytes.data(), bytes.size()));
        }
        todo.push_back(ingest.message(seconds(0), name, std::move(reply)));
      }
    }
    if (!ingest.has_manifest() && ingest.ready().size() == 2) {
      todo.push_back(ingest.count_in(ingest.ready()));
    }
  }
  EXPECT_THAT(complete, ElementsAre(0u, 1u, 2u));
  expect_all_rows(ingest.manifest(), spool);
  EXPECT_TRUE(evil.idle()) << "a chunk was not acknowledged";
  const auto named = std::ranges::count_if(
      notes, [](const std::string& n) { return n.starts_with("store evil: "); });
  EXPECT_EQ(named, static_cast<int64_t>(RowIngest::kNamedRefusals) + 1);
  EXPECT_THAT(notes, ::testing::Contains(HasSubstr("refused: a feature is NaN or Inf")));
}

TEST(RowIngest, ASampleThatIsNoNumbersEndsTheSession) {
  Store a("a", claims(0, 60));
  IngestRules r = rules();
  r.check_sample = [](std::string_view rows) { return rows == "nan" ? "a feature is NaN" : ""; };
  for (const std::string sample : {"one", "nan"}) {
    RowIngest ingest(r);
    (void)ingest.arrive(seconds(0), "a");
    wire::ToStore job;
    job.mutable_job()->set_job(9);
    wire::FromStore m = a.answer(job).at(0);
    m.mutable_inventory()->set_sample(sample);
    m.mutable_inventory()->set_sample_checksum(xxh3(sample.data(), sample.size()));
    const RowIngest::Actions actions = ingest.message(seconds(0), "a", m);
    EXPECT_EQ(actions.end_session.value_or(""),
              sample == "nan" ? "the rows of the job's sample: a feature is NaN" : "");
    EXPECT_EQ(ingest.ready().size(), sample == "nan" ? 0U : 1U);
  }
}

TEST(RowIngest, AStoreHasAsManyPhotosAsItMayAndNoMore) {
  for (const int n : {4, 5, 6}) {
    Store a("a", claims(0, n));
    IngestRules r = rules();
    r.most_photos = 5;
    RowIngest ingest(r);
    (void)ingest.arrive(seconds(0), "a");
    wire::ToStore job;
    job.mutable_job()->set_job(9);
    const RowIngest::Actions actions = ingest.message(seconds(0), "a", a.answer(job).at(0));
    EXPECT_EQ(ingest.ready().size(), n <= 5 ? 1U : 0U);
    EXPECT_EQ(actions.end_session.has_value(), n > 5);
  }
}

TEST(RowIngest, CountsThatDifferAtTheEndOfARunEndTheSession) {
  Store a("a", claims(0, 40));
  Calm c(rules(), 1);
  c.arrive(a);
  wire::FromStore m;
  m.mutable_run_done()->set_job(9);
  m.mutable_run_done()->set_run(1);
  m.mutable_run_done()->set_photos(c.ingest.manifest().run(1).size());
  c.take(c.ingest.message(c.now, "a", m));
  EXPECT_EQ(c.ended, "");
  m.mutable_run_done()->set_photos(3);
  c.take(c.ingest.message(c.now, "a", m));
  EXPECT_THAT(c.ended, HasSubstr("has sent 3 photos"));
}

TEST(RowIngest, RowsOfViewsAreSoManyTimesAsLargeButForValidation) {
  IngestRules r = rules();
  r.views = 3;
  Store a("a", claims(0, 60));
  a.make_rows({.bytes = Store::kRow, .views = 3});
  Calm c(r, 1);
  c.arrive(a);
  ASSERT_EQ(c.spool.size(), 60U) << c.ended;
  for (const auto& [number, row] : c.spool) {
    const size_t views = c.ingest.manifest().entry(number).run == 0 ? 1 : 3;
    EXPECT_EQ(row.size(), views * Store::kRow);
  }
  Store plain("plain", claims(0, 60));  // sends photos as they are
  Calm other(r, 1);
  other.arrive(plain);
  EXPECT_THAT(other.ended, HasSubstr("of another size"));
}

}  // namespace
}  // namespace ndtrain::tuner
