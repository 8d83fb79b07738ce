// What is counted as labels come is what a walk over all of them finds, after any sequence of
// calls, and nobody reads a label to say it.
#include "ndp/labels/label_counts.h"

#include <gmock/gmock.h>
#include <sqlite3.h>

#include <set>
#include <stop_token>
#include <thread>

#include "framework/core/rng.h"
#include "ndp/labels/label_counts_check.h"
#include "ndp/postgres/postgres.h"
#include "ndp/sqlite/sqlite.h"
#include "tests/labels/labels_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_labels;

constexpr int kCountedPhotos = 14;
constexpr int64_t kCountedTimes = 9000;  // spans of every length are among them

std::vector<LabelRow> all_rows(LabelDb& db, LabelQuery q) {
  std::vector<LabelRow> rows;
  std::set<int64_t> seen;
  for (bool more = true; more;) {
    LabelPage page = db.query(q).or_throw();
    for (LabelRow& r : page.rows) {
      if (seen.insert(r.photo).second) rows.push_back(std::move(r));
    }
    more = page.next.has_value();
    if (more) q.after = *page.next;
  }
  return rows;
}

using Histogram = std::map<std::string, std::pair<int64_t, double>>;

Histogram counted(LabelDb& db, int64_t collection, int64_t version, int64_t since, int64_t until) {
  Histogram h;
  for (const ClassCount& c : db.class_counts(collection, version, since, until).or_throw()) {
    EXPECT_TRUE(h.emplace(c.class_name, std::pair(c.photos, c.scores)).second);
  }
  return h;
}

// Of two collections and two tasks.
class Collected {
 public:
  explicit Collected(const std::string& kind) : kind_(kind), file_(kind) { open(); }

  void open() {
    db_.reset();
    db_ = file_.open();
    collections_ = {db_->collection("c").or_throw(), db_->collection("d").or_throw()};
    for (const char* name : {"s", "t"}) begin_task(name);
  }
  // As an earlier program left it.
  void forget_counts() {
    db_.reset();
    execute("DROP TABLE label_counts; DROP TABLE photo_counts; DROP INDEX labels_truths;");
    execute(kind_ == "sqlite" ? "PRAGMA user_version = 6"
                              : "UPDATE ndtrain_labels SET schema_version = 4");
  }
  void execute(const std::string& sql) {
    if (kind_ == "sqlite") return sql::Database(file_.path()).execute(sql);
    const postgres::Connection once(file_.url(), sql);
  }

  void step(Rng& rng) {
    const auto draw = [&](uint64_t n) { return rng.next_below(n); };
    const int64_t collection = collections_[draw(2)];
    const std::string name = draw(2) ? "s" : "t";
    const int photo = static_cast<int>(draw(kCountedPhotos));
    const std::vector<Digest> some = {sha256(places(photo, 1)[0].path),
                                      sha256(places(static_cast<int>(draw(14)), 1)[0].path)};
    Task& task = tasks_.at(name);
    switch (draw(12)) {
      case 0:
      case 1: {
        auto where = places(photo, 1 + static_cast<int>(draw(4)));
        if (draw(2)) where[0].path = "copy of " + where[0].path;
        if (draw(3) == 0) where[0].digest = some[1];  // another photo is there from now on
        if (draw(3) == 0) where.push_back({where[0].path, some[0]});
        (void)db_->add_photos(collection, where).or_throw();
        break;
      }
      case 2: {
        const std::vector<std::string> paths = {places(photo, 1)[0].path, "nowhere"};
        db_->remove_paths(collection, paths).or_throw();
        break;
      }
      case 3:
        db_->put_in_trash(some).or_throw();
        break;
      case 4:
      case 5:
        db_->restore_from_trash(some).or_throw();
        break;
      case 6:
        db_->put_in_force(task.id, task.versions[draw(3)]).or_throw();
        break;
      case 7:
        (void)db_->undo(task.versions[draw(3)], 7).or_throw();
        break;
      case 8:
        if (draw(8) == 0) remove(name, some);  // each rewrites the files
        break;
      default:
        put(rng, task, static_cast<LabelSource>(1 + draw(4)));
    }
  }

  void compare(Rng& rng) {
    for (const int64_t collection : collections_) {
      for (const auto& [name, task] : tasks_) {
        LabelQuery all{.collection = collection, .task = task.id, .limit = 5};
        const std::vector<LabelRow> rows = all_rows(*db_, all);
        LabelCounts expected;
        expected.photos = db_->stats(collection, task.id).or_throw().photos;
        expected.labelled = static_cast<int64_t>(rows.size());
        for (const LabelRow& r : rows) {
          if (r.version) ++expected.by_version[*r.version];
        }
        const LabelCounts counts = db_->counts(collection, task.id).or_throw();
        ASSERT_EQ(counts.photos, expected.photos);
        ASSERT_EQ(counts.labelled, expected.labelled);
        ASSERT_EQ(counts.by_version, expected.by_version);
        for (const int64_t version : task.versions) compare_times(rng, collection, version, rows);
        compare_truths(rng, collection, task.id, rows);
      }
    }
  }

  LabelDb& db() { return *db_; }
  std::string path() const { return file_.path(); }

 private:
  struct Task {
    int64_t id = 0;
    std::vector<int64_t> versions, classes;
  };
  void begin_task(const std::string& name) {
    Task& t = tasks_[name];
    t = {.id = db_->task(name).or_throw()};
    for (int64_t v = 0; v < 3; ++v) {
      const NewVersion version{.content = sha256(name + std::to_string(v)), .created = v};
      t.versions.push_back(db_->version(t.id, version).or_throw());
    }
    const std::vector<std::string> names{"c0", "c1", "c2"};
    t.classes = db_->class_ids(t.id, names).or_throw();
  }
  void remove(const std::string& task, std::span<const Digest> some) {
    const auto ids = db_->photos_with(some).or_throw();
    (void)db_->remove_photos(ids).or_throw();
    db_->remove_task(task).or_throw();
    begin_task(task);
  }
  void put(Rng& rng, const Task& task, LabelSource source) {
    std::vector<Digest> digests;
    for (int i = 0; i < 5; ++i) {
      digests.push_back(
          sha256(places(static_cast<int>(rng.next_below(kCountedPhotos)), 1)[0].path));
    }
    LabelBatch batch{.task = task.id, .source = source};
    if (source == LabelSource::kModel) batch.version = task.versions[rng.next_below(3)];
    for (const int64_t photo : db_->photos_with(digests).or_throw()) {
      if (photo == 0) continue;
      NewLabel& l = batch.labels.emplace_back();
      l.photo = photo;
      l.class_id = task.classes[rng.next_below(3)];
      if (rng.next_below(4) > 0) l.score = 0.125 * static_cast<double>(rng.next_below(9));
      l.time = static_cast<int64_t>(rng.next_below(kCountedTimes)) - 100;
      l.just_now = rng.next_below(2) == 0;
    }
    const auto put = db_->put_labels(batch);
    ASSERT_TRUE(put.ok() || put.status().code() == Code::kCancelled) << put.status().message();
  }
  void compare_times(Rng& rng, int64_t collection, int64_t version,
                     const std::vector<LabelRow>& rows) {
    const int64_t since = static_cast<int64_t>(rng.next_below(kCountedTimes)) - 120;
    const int64_t until = since + static_cast<int64_t>(rng.next_below(kCountedTimes));
    Histogram expected;
    for (const LabelRow& r : rows) {
      if (r.version != version || r.time < since || r.time >= until) continue;
      auto& [n, scores] = expected[r.class_name];
      ++n;
      scores += r.score.value_or(0);
    }
    ASSERT_EQ(counted(*db_, collection, version, since, until), expected);
  }
  void compare_truths(Rng& rng, int64_t collection, int64_t task,
                      const std::vector<LabelRow>& rows) {
    const auto since = static_cast<int64_t>(rng.next_below(kCountedTimes));
    const auto most = static_cast<int64_t>(1 + rng.next_below(6));
    const int64_t n = std::ranges::count_if(
        rows, [&](const LabelRow& r) { return !r.version && r.time >= since; });
    ASSERT_EQ(db_->count_truths(collection, task, since, most).or_throw(), std::min(n, most));
  }

  const std::string kind_;
  TemporaryDb file_;
  std::unique_ptr<LabelDb> db_;
  std::vector<int64_t> collections_;
  std::map<std::string, Task> tasks_;
};

class LabelCountsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "postgresql" && !support::PostgresServer::lacking().empty()) {
      GTEST_SKIP() << support::PostgresServer::lacking();
    }
  }
};
NDT_FOR_ALL_DATABASES(LabelCountsTest);

TEST_P(LabelCountsTest, AreWhatAWalkOverAllLabelsFindsAfterAnySequenceOfCalls) {
  const uint64_t seeds = GetParam() == "sqlite" ? 4 : 1;  // a server's deletions take a second
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Collected c(GetParam());
    Rng rng(seed, "counts");
    for (int step = 0; step < 120 && !HasFatalFailure(); ++step) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", step " + std::to_string(step));
      c.step(rng);
      c.compare(rng);
    }
  }
}

TEST_P(LabelCountsTest, OfADatabaseOfAnEarlierProgramAreMadeWhenItIsOpened) {
  for (uint64_t seed = 10; seed < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Collected c(GetParam());
    Rng rng(seed, "counts");
    for (int step = 0; step < 60; ++step) c.step(rng);
    c.forget_counts();
    c.open();
    c.compare(rng);
    for (int step = 0; step < 20 && !HasFatalFailure(); ++step) {
      c.step(rng);
      c.compare(rng);
    }
  }
}

TEST_P(LabelCountsTest, AreSaidWithoutTheLabels) {
  Collected c(GetParam());
  Rng rng(3, "counts");
  for (int step = 0; step < 60; ++step) c.step(rng);
  const int64_t collection = c.db().collection("c").or_throw();
  const int64_t task = c.db().task("t").or_throw();
  const int64_t version = c.db().versions(task).or_throw().at(0).id;
  const auto ask = [&] {
    return std::pair(c.db().counts(collection, task).or_throw(),
                     counted(c.db(), collection, version, 0, kCountedTimes));
  };
  const auto before = ask();
  EXPECT_GT(before.first.labelled, 0);
  c.execute("ALTER TABLE labels RENAME TO labels_elsewhere; ALTER TABLE places RENAME TO p");
  EXPECT_FALSE(c.db().stats(collection, task).ok());
  EXPECT_EQ(ask(), before);
}

TEST(LabelCountsCheck, SeesWhatIsCountedWrongAndCountsItAgain) {
  Collected c("sqlite");
  Rng rng(5, "counts");
  for (int step = 0; step < 120; ++step) {
    c.step(rng);
    const Status s = check_label_counts(c.path());
    ASSERT_TRUE(s.ok()) << "step " << step << ": " << s.message();
  }
  const std::string of_versions = "SELECT count(*) FROM label_counts WHERE seconds = 64";
  while (sql::Database(c.path()).integer(of_versions) == 0) c.step(rng);
  const auto one = [](const std::string& table) {
    return " WHERE rowid = (SELECT min(rowid) FROM " + table + ")";
  };
  const std::string span = " WHERE seconds = 64";
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"UPDATE photo_counts SET photos = photos + 1" + one("photo_counts"), "photos are counted"},
      {"DELETE FROM photo_counts" + one("photo_counts"), "0 photos are counted"},
      {"UPDATE label_counts SET labels = labels + 1" + span, "64 seconds from"},
      {"UPDATE label_counts SET scores = scores + 0.01" + span, "64 seconds from"},
      {"DELETE FROM label_counts WHERE seconds = 0", "0 labels with scores of 0 are counted"},
      {"INSERT INTO label_counts VALUES (77, 1, 1, 1, 5, 1, 2, 0.5)", "of collection 77"},
      {"UPDATE labels SET time = time + 1 WHERE version IS NOT NULL", "1 seconds from"}};
  for (const auto& [sql, what] : wrong) {
    c.execute(sql);
    const Status s = check_label_counts(c.path());
    EXPECT_EQ(s.code(), Code::kCorrupt) << sql;
    EXPECT_THAT(s.message(), ::testing::HasSubstr(what)) << sql;
    ASSERT_TRUE(count_labels_again(c.path()).ok());
    EXPECT_TRUE(check_label_counts(c.path()).ok()) << sql;
    c.compare(rng);
  }
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(check_label_counts(c.path(), stop.get_token()).code(), Code::kCancelled);
  c.forget_counts();
  EXPECT_TRUE(check_label_counts(c.path()).ok()) << "an earlier program counts nothing";
}

// What SQLite does, in steps of its virtual machine, while this is there.
class SqliteSteps {
 public:
  SqliteSteps() {
    so_far = 0;
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(&watch));
  }
  ~SqliteSteps() { sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(&watch)); }
  static int64_t take() { return std::exchange(so_far, 0); }

 private:
  static int watch(sqlite3* db, char**, const sqlite3_api_routines*) {
    sqlite3_trace_v2(db, SQLITE_TRACE_PROFILE, &ended, nullptr);
    return SQLITE_OK;
  }
  static int ended(unsigned, void*, void* statement, void*) {
    so_far +=
        sqlite3_stmt_status(static_cast<sqlite3_stmt*>(statement), SQLITE_STMTSTATUS_VM_STEP, 1);
    return 0;
  }
  static inline int64_t so_far = 0;
};

// Ten truths and ten labels of a version at 100,000, `n` older ones of each.
struct OldAndNew {
  OldAndNew(LabelDb& db, int n)
      : collection(db.collection("c").or_throw()), task(db.task("t").or_throw()) {
    const auto photos = db.add_photos(collection, places(0, 2 * n + 20)).or_throw();
    const std::vector<std::string> name{"cat"};
    const int64_t cat = db.class_ids(task, name).or_throw()[0];
    version = db.version(task, {.content = sha256("v")}).or_throw();
    LabelBatch truths{.task = task, .source = LabelSource::kHuman}, made{.task = task};
    made.version = version;
    for (size_t i = 0; i < photos.size(); ++i) {
      const bool is_new = i >= photos.size() - 20;
      NewLabel& l = (i % 2 ? truths : made).labels.emplace_back();
      l = {.photo = photos[i], .class_id = cat, .time = is_new ? 100'000 : 10};
    }
    (void)db.put_labels(truths).or_throw();
    (void)db.put_labels(made).or_throw();
  }
  int64_t collection, task, version = 0;
};

// Steps to count truths and read a version's last hour, where there are `n` older labels of each.
std::pair<int64_t, int64_t> steps_beside(int n) {
  const SqliteSteps counting;
  const TemporaryDb file;
  const auto db = file.open();
  const OldAndNew labels(*db, n);
  (void)SqliteSteps::take();
  EXPECT_EQ(db->count_truths(labels.collection, labels.task, 5000, 1000).or_throw(), 10);
  const int64_t of_truths = SqliteSteps::take();
  EXPECT_EQ(counted(*db, labels.collection, labels.version, 99'000, 102'600).at("cat").first, 10);
  EXPECT_EQ(db->counts(labels.collection, labels.task).or_throw().labelled, 2 * n + 20);
  return {of_truths, SqliteSteps::take()};
}

TEST(LabelCounts, CostNoMoreBesideManyOlderLabels) {
  const auto few = steps_beside(10), many = steps_beside(4000);
  EXPECT_GT(few.first, 10);
  EXPECT_GT(few.second, 10);
  EXPECT_EQ(many, few);
}

TEST(LabelCounts, OfAServerAreReadFromTheIndexOfTruths) {
  if (!support::PostgresServer::lacking().empty()) {
    GTEST_SKIP() << support::PostgresServer::lacking();
  }
  const TemporaryDb file("postgresql");
  auto db = file.open();
  const OldAndNew labels(*db, 4000);
  postgres::Connection other(file.url(), "ANALYZE");
  EXPECT_EQ(db->count_truths(labels.collection, labels.task, 5000, 1000).or_throw(), 10);
  db.reset();  // its process tells what it read as it ends
  int64_t read = 0;
  for (int i = 0; read == 0 && i < 3000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    other.start("BEGIN");
    const postgres::Answer a = other.query(
        "SELECT CAST(idx_tup_read AS BIGINT) FROM pg_stat_user_indexes"
        " WHERE indexrelname = 'labels_truths'",
        {});
    read = a.integer(0, 0);
    other.rollback();
  }
  EXPECT_GE(read, 10);
  EXPECT_LT(read, 100) << "of 4,010";
}

TEST(LabelCounts, SpansAreTogetherTheTimeThatIsAskedFor) {
  Rng rng(1, "spans");
  for (int i = 0; i < 500; ++i) {
    const int64_t since = static_cast<int64_t>(rng.next_below(40'000)) - 20'000;
    const int64_t until = since + static_cast<int64_t>(rng.next_below(20'000)) - 100;
    std::vector<CountedSpans> spans = counted_spans(since, until);
    EXPECT_LE(spans.size(), 5u);
    std::ranges::sort(spans, {}, &CountedSpans::since);
    int64_t at = since;
    for (const CountedSpans& s : spans) {
      ASSERT_EQ(s.since, at) << since << " to " << until;
      ASSERT_EQ(s.since % s.seconds, 0);
      ASSERT_EQ(s.until % s.seconds, 0);
      ASSERT_LT(s.since, s.until);
      at = s.until;
    }
    ASSERT_EQ(at, std::max(since, until));
  }
  EXPECT_THAT(
      counted_spans(4095, 8193),
      ::testing::UnorderedElementsAre(CountedSpans{4096, 4096, 8192}, CountedSpans{1, 4095, 4096},
                                      CountedSpans{1, 8192, 8193}));
}

}  // namespace
}  // namespace ndtrain::ndp
