#include "tuner/watch/watch_labels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "framework/core/rng.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr int64_t kWatchHour = 3600, kNow = 100 * kWatchHour;

class WatchLabelsTest : public ::testing::Test {
 protected:
  int64_t photo(int i) {
    const std::string name = "photo " + std::to_string(i);
    const std::vector<PhotoPlace> place = {{"a/" + name, sha256(name)}};
    return db_->add_photos(db_->collection(kDefaultCollection).or_throw(), place).or_throw()[0];
  }
  void put(LabelSource source, std::optional<int64_t> version, int i, const std::string& name,
           int64_t time, std::optional<double> score = std::nullopt) {
    const int64_t id = db_->class_ids(task(), std::vector{name}).or_throw()[0];
    LabelBatch batch{.task = task(), .source = source, .version = version};
    batch.labels.push_back({.photo = photo(i), .class_id = id, .score = score, .time = time});
    (void)db_->put_labels(batch).or_throw();
  }
  void human_label(int i, int64_t time, LabelSource source = LabelSource::kHuman) {
    put(source, std::nullopt, i, "rose", time);
  }
  int64_t version(const std::string& content) {
    return db_->version(task(), {.content = sha256(content)}).or_throw();
  }
  int64_t task() { return db_->task(kDefaultTask).or_throw(); }
  WatchObservation read(const std::string& content = "v1", int64_t trained = 0) {
    return read_labels(*db_, {.in_force = sha256(content),
                              .trained = trained,
                              .enough = 5,
                              .times = {kNow - 2 * kWatchHour, kNow - kWatchHour, kNow}})
        .or_throw();
  }

  support::TemporaryDirectory directory_;
  std::unique_ptr<LabelDb> db_ = open_label_db("sqlite:" + directory_.at("l.db")).or_throw();
};

// What a walk over all current labels finds.
WatchObservation walked(LabelDb& db, const WatchQuery& q) {
  const int64_t collection = db.collection(q.collection).or_throw();
  const int64_t task = db.task(q.task).or_throw();
  const LabelStats stats = db.stats(collection, task).or_throw();
  WatchObservation s;
  if (q.count_missing) s.photos = stats.photos, s.labelled = stats.labelled;
  const auto counted = db.in_force(task).or_throw();
  std::optional<int64_t> in_force;
  for (const VersionInfo& v : db.versions(task).or_throw()) {
    if (v.content == q.in_force) in_force = v.id;
  }
  std::set<int64_t> seen;
  for (const LabelRow& r :
       db.query({.collection = collection, .task = task, .limit = 1000}).or_throw().rows) {
    if (!seen.insert(r.photo).second) continue;  // at another path
    s.truths += !r.version && r.time > q.trained;
    s.stale |= r.version && (!in_force || counted != in_force || r.version != in_force);
    if (!r.version || r.version != in_force || r.time < q.times.earlier || r.time > q.times.now) {
      continue;
    }
    (r.time < q.times.later ? s.earlier : s.later).add(r.class_name, 1, r.score.value_or(0));
  }
  s.truths = std::min(s.truths, q.enough);
  return s;
}

TEST_F(WatchLabelsTest, AreWhatAWalkOverAllOfThemFindsAfterAnySequenceOfCalls) {
  const std::vector<std::string> names{"rose", "tulip", "daisy"};
  const std::vector<int64_t> classes = db_->class_ids(task(), names).or_throw();
  const int64_t collection = db_->collection(kDefaultCollection).or_throw();
  Rng rng(5, "looks");
  int stale = 0, truths = 0, drawn = 0;
  for (int step = 0; step < 600; ++step) {
    const int i = static_cast<int>(rng.next_below(12));
    const std::vector<Digest> one = {sha256("photo " + std::to_string(i))};
    const int64_t v = version("v" + std::to_string(rng.next_below(3)));
    const int64_t time = kNow - static_cast<int64_t>(rng.next_below(3 * kWatchHour)) + 600;
    const auto is_there = [&] { return db_->photos_with(one).or_throw()[0] != 0; };
    const uint64_t what = rng.next_below(16);
    if (what == 0) db_->put_in_force(task(), v).or_throw();
    if (what == 1) (void)db_->undo(v, 1).or_throw();
    if (what == 2) db_->put_in_trash(one).or_throw();
    if (what == 3 || what == 4) db_->restore_from_trash(one).or_throw();
    if (what == 5 && is_there()) {
      (void)db_->remove_photos(db_->photos_with(one).or_throw()).or_throw();
    }
    if (what == 6) {
      const std::vector<std::string> path = {"a/photo " + std::to_string(i)};
      db_->remove_paths(collection, path).or_throw();
    }
    if (what >= 7) {
      LabelBatch batch{.task = task(), .source = LabelSource::kHuman};
      if (what >= 9) batch.source = LabelSource::kModel, batch.version = v;
      batch.labels.push_back({.photo = photo(i),
                              .class_id = classes[rng.next_below(3)],
                              .score = 0.25 * static_cast<double>(rng.next_below(5)),
                              .time = time});
      const auto put = db_->put_labels(batch);
      ASSERT_TRUE(put.ok() || put.status().code() == Code::kCancelled);
    }
    const WatchQuery q{.in_force = sha256("v" + std::to_string(rng.next_below(4))),
                       .trained = kNow - static_cast<int64_t>(rng.next_below(3 * kWatchHour)),
                       .enough = static_cast<int64_t>(1 + rng.next_below(4)),
                       .count_missing = rng.next_below(2) == 0,
                       .times = {kNow - 2 * kWatchHour, kNow - kWatchHour, kNow}};
    const WatchObservation s = read_labels(*db_, q).or_throw(), expected = walked(*db_, q);
    SCOPED_TRACE("step " + std::to_string(step));
    ASSERT_EQ(s.truths, expected.truths);
    ASSERT_EQ(s.stale, expected.stale);
    ASSERT_EQ(std::pair(s.photos, s.labelled), std::pair(expected.photos, expected.labelled));
    for (const auto& [a, b] :
         {std::pair(&s.later, &expected.later), std::pair(&s.earlier, &expected.earlier)}) {
      ASSERT_EQ(a->classes, b->classes);
      ASSERT_EQ(a->photos, b->photos);
      ASSERT_EQ(a->scores, b->scores);
    }
    stale += s.stale, truths += s.truths > 0, drawn += s.later.photos > 0;
  }
  EXPECT_GT(std::min({stale, truths, drawn}), 20) << "it says something now and then";
}

TEST_F(WatchLabelsTest, AnEmptyDatabaseSaysNothing) {
  const WatchObservation s = read();
  EXPECT_EQ(s.truths, 0);
  EXPECT_FALSE(s.stale);
  EXPECT_EQ(s.later.photos + s.earlier.photos, 0);
}

TEST_F(WatchLabelsTest, HumanLabelsAreCountedFromTheLastTrainingOnUntilThereAreEnough) {
  human_label(1, 10);
  human_label(2, 11);
  human_label(3, 12, LabelSource::kImport);
  human_label(4, 13, LabelSource::kFolder);
  put(LabelSource::kModel, version("v1"), 5, "rose", 14, 0.5);
  EXPECT_EQ(read("v1").truths, 4);
  EXPECT_EQ(read("v1", 11).truths, 2) << "the training has what was there";
  EXPECT_EQ(read("v1", 13).truths, 0);
  for (int i = 6; i < 20; ++i) human_label(i, 20);
  EXPECT_EQ(read("v1").truths, 5);
}

TEST_F(WatchLabelsTest, PhotosAndThoseWithALabelAreCountedWhereItIsAskedFor) {
  const int64_t v1 = version("v1");
  db_->put_in_force(task(), v1).or_throw();
  put(LabelSource::kModel, v1, 1, "rose", 10, 0.5);
  put(LabelSource::kModel, version("v0"), 2, "rose", 10, 0.5);
  human_label(3, 10);
  (void)photo(4);
  WatchQuery query{.in_force = sha256("v1"), .enough = 5, .count_missing = true, .times = {}};
  const WatchObservation s = read_labels(*db_, query).or_throw();
  EXPECT_EQ(s.photos, 4);
  EXPECT_EQ(s.labelled, 3) << "stale ones too";
  query.count_missing = false;
  EXPECT_EQ(read_labels(*db_, query).or_throw().photos, 0);
}

TEST_F(WatchLabelsTest, AnotherTasksOrCollectionsLabelsDoNotCount) {
  human_label(1, 10);
  const WatchTimes times = {kNow - 2 * kWatchHour, kNow - kWatchHour, kNow};
  const auto truths = [&](const char* collection, const char* task) {
    return read_labels(*db_, {.collection = collection, .task = task, .enough = 5, .times = times})
        .or_throw()
        .truths;
  };
  (void)db_->collection("attic").or_throw();
  (void)db_->task("blur").or_throw();
  EXPECT_EQ(truths("default", "default"), 1);
  EXPECT_EQ(truths("attic", "default"), 0);
  EXPECT_EQ(truths("default", "blur"), 0);
}

TEST_F(WatchLabelsTest, WindowsHoldWhatTheVersionInForceHasLabelled) {
  const int64_t v1 = version("v1"), v2 = version("v2");
  db_->put_in_force(task(), v1).or_throw();
  put(LabelSource::kModel, v1, 1, "rose", kNow - 2 * kWatchHour - 1, 0.9);
  put(LabelSource::kModel, v1, 2, "rose", kNow - 2 * kWatchHour, 0.8);
  put(LabelSource::kModel, v1, 3, "tulip", kNow - kWatchHour - 1, 0.6);
  put(LabelSource::kModel, v1, 4, "tulip", kNow - kWatchHour, 0.5);
  put(LabelSource::kModel, v1, 5, "peony", kNow, 0.4);
  put(LabelSource::kModel, v1, 6, "peony", kNow, 0.3);
  human_label(6, kNow);
  put(LabelSource::kModel, v2, 7, "daisy", kNow, 0.2);
  const WatchObservation s = read("v1");
  EXPECT_EQ(s.earlier.classes, (std::map<std::string, int64_t>{{"rose", 1}, {"tulip", 1}}));
  EXPECT_NEAR(s.earlier.mean_score(), 0.7, 1e-6);
  EXPECT_EQ(s.later.classes, (std::map<std::string, int64_t>{{"tulip", 1}, {"peony", 1}}));
  EXPECT_NEAR(s.later.mean_score(), 0.45, 1e-6);
}

TEST_F(WatchLabelsTest, LabelsOfOtherVersionsAreStaleAlsoBeforeTheDatabaseHasTheNewOne) {
  const int64_t v1 = version("v1");
  put(LabelSource::kModel, v1, 1, "rose", 10, 0.9);
  db_->put_in_force(task(), v1).or_throw();
  EXPECT_FALSE(read("v1").stale);
  EXPECT_TRUE(read("v2").stale) << "it was promoted just now";
  const int64_t v2 = version("v2");
  db_->put_in_force(task(), v2).or_throw();
  EXPECT_TRUE(read("v2").stale);
  put(LabelSource::kModel, v2, 1, "rose", 11, 0.9);
  EXPECT_FALSE(read("v2").stale);
  human_label(2, 12);
  EXPECT_FALSE(read("v2").stale) << "what people say is of no version";
}

}  // namespace
}  // namespace ndtrain::tuner
