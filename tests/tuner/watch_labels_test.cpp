#include "tuner/watch/watch_labels.h"

#include <gtest/gtest.h>

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
