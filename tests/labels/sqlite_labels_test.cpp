// What a label database on disk goes through: death of the writer, older and newer programs, a full
// disk, other people's files.
#include "ndp/labels/sqlite_labels.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "framework/core/publish.h"
#include "framework/core/rng.h"
#include "framework/testing/fsync_throws.h"
#include "ndp/labels/migrations.h"
#include "tests/labels/labels_fixture.h"
#include "tests/support/failing_fsync.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_labels;

constexpr int kSqlitePhotos = 3000, kBatch = 20;

// Labels what is not labelled yet, as a relabel job does. Runs in a process that is shot.
void relabel(const std::string& path) {
  auto db = open_label_db("sqlite:" + path).or_throw();
  const int64_t collection = db->collection(kDefaultCollection).or_throw();
  const int64_t task = db->task(kDefaultTask).or_throw();
  const std::vector<std::string> names{"a", "b"};
  const auto classes = db->class_ids(task, names).or_throw();
  const auto photos = db->add_photos(collection, places(0, kSqlitePhotos)).or_throw();
  const int64_t version = db->version(task, {.content = sha256("v")}).or_throw();
  for (;;) {
    const auto todo = some_without(db->labelled_by(version, photos).or_throw(), photos, kBatch);
    if (todo.empty()) return;
    LabelBatch batch{.task = task, .version = version};
    for (const int64_t photo : todo) {
      const Digest digest = db->digest_of(photo).or_throw();
      batch.labels.push_back({.photo = photo, .class_id = classes[digest[0] % 2]});
    }
    db->put_labels(batch).or_throw();
  }
}

TEST(SqliteLabels, EveryPhotoIsLabelledOnceThoughTheWriterIsKilledAgainAndAgain) {
  const TemporaryDb file;
  Rng rng(11);
  int killed = 0;
  for (bool done = false; !done;) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        relabel(file.path());
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    int status = 0;
    if (killed < 10) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5 + rng.next_below(40)));
      ::kill(child, SIGKILL);
      ++killed;
    }
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    done = WIFEXITED(status);

    auto db = file.open();  // whatever happened, it opens, and batches are whole
    const int64_t collection = db->collection(kDefaultCollection).or_throw();
    const LabelStats stats = db->stats(collection, db->task(kDefaultTask).or_throw()).or_throw();
    EXPECT_EQ(stats.labelled % kBatch, 0);
  }
  auto db = file.open();
  const LabelQuery query{.collection = db->collection(kDefaultCollection).or_throw(),
                         .task = db->task(kDefaultTask).or_throw(),
                         .limit = 2 * kSqlitePhotos};
  const auto rows = db->query(query).or_throw().rows;
  EXPECT_EQ(rows.size(), static_cast<size_t>(kSqlitePhotos));
  for (const LabelRow& row : rows) {
    ASSERT_EQ(row.class_name, row.digest[0] % 2 ? "b" : "a");
    ASSERT_EQ(db->history(query.task, row.photo).or_throw().size(), 1u);
  }
}

TEST(SqliteLabels, AnOlderDatabaseIsBroughtUpToDateAndKeepsItsRows) {
  const TemporaryDb file;
  const std::string_view v1 = "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (2);";
  const std::string_view v2 = "ALTER TABLE t ADD COLUMN b INTEGER; UPDATE t SET b = a * 10;";
  const std::string_view both[] = {v1, v2};
  {
    sql::Database db(file.path());
    migrate(db, std::span(both).first(1));
    EXPECT_EQ(db.integer("PRAGMA user_version"), 1);
  }
  sql::Database db(file.path());
  for (int again = 0; again < 2; ++again) {
    migrate(db, both);
    EXPECT_EQ(db.integer("PRAGMA user_version"), 2);
    EXPECT_EQ(db.integer("SELECT sum(b) FROM t"), 30);
  }
  try {
    migrate(db, std::span(both).first(1));
    FAIL() << "an older program took it";
  } catch (const sql::Failure& failure) {
    EXPECT_EQ(failure.status.code(), Code::kUnsupported);
  }
}

TEST(SqliteLabels, AMigrationThatFailsLeavesTheOldVersion) {
  const TemporaryDb file;
  const std::string_view bad[] = {"CREATE TABLE t (a);", "CREATE TABLE u (a); SELECT nonsense;"};
  sql::Database db(file.path());
  migrate(db, std::span(bad).first(1));
  EXPECT_THROW(migrate(db, bad), sql::Failure);
  EXPECT_EQ(db.integer("PRAGMA user_version"), 1);
  EXPECT_EQ(db.integer("SELECT count(*) FROM sqlite_master"), 1);
}

TEST(SqliteLabels, OurOwnMigrationsAreCompleteFromEveryVersion) {
  for (size_t from = 0; from <= label_migrations().size(); ++from) {
    const TemporaryDb file;
    {
      sql::Database db(file.path());
      migrate(db, label_migrations().first(from));
    }
    EXPECT_TRUE(file.open()->collection("c").ok());
  }
}

// A file as the first released program wrote it.
void write_schema_1(const std::string& path) {
  sql::Database db(path);
  migrate(db, label_migrations().first(1));
  db.execute(R"sql(
INSERT INTO collections VALUES (1, 'default');
INSERT INTO tasks VALUES (1, 'default'), (2, 'empty');
INSERT INTO classes VALUES (1, 0, 'cat'), (1, 1, 'dog');
INSERT INTO photos VALUES (1, zeroblob(32)), (2, randomblob(32)), (5, randomblob(32));
INSERT INTO places VALUES (1, 'a.jpg', 1), (1, 'b.jpg', 2), (1, 'copy of b.jpg', 2), (1, 'c.jpg', 5);
INSERT INTO versions VALUES (1, 1, randomblob(32), NULL, 10, ''), (2, 1, randomblob(32), 1, 20, 'm');
INSERT INTO labels VALUES
  (1, 1, 1, 0, 0.5, '[[0,0.5],[1,0.25]]', 1, 1, 100, 0),
  (2, 2, 1, 0, 0.75, '[]', 1, 1, 100, 1),
  (3, 1, 1, 1, 0.875, '[[1,0.875]]', 1, 2, 200, 0),
  (4, 1, 1, 0, NULL, NULL, 4, NULL, 300, 1),
  (5, 5, 1, 1, 0.625, NULL, 1, 2, 200, 1);
)sql");
}

TEST(SqliteLabels, AFileOfSchema1KeepsEveryLabelItsOrderAndItsCurrentOnes) {
  const TemporaryDb file;
  write_schema_1(file.path());
  auto db = file.open();
  const int64_t collection = db->collection("default").or_throw();
  const int64_t task = db->task("default").or_throw();
  const auto rows = db->query({.collection = collection, .task = task}).or_throw().rows;
  std::vector<std::string> current;
  for (const LabelRow& r : rows) {
    current.push_back(r.path + " " + r.class_name + " " + std::string(name_of(r.source)));
  }
  EXPECT_THAT(current, ::testing::ElementsAre("a.jpg cat human", "b.jpg cat model",
                                              "copy of b.jpg cat model", "c.jpg dog model"));
  const auto history = db->history(task, 1).or_throw();
  ASSERT_EQ(history.size(), 3u);
  EXPECT_EQ(history[2].top_k, (std::vector<ScoredClass>{{0, 0.5}, {1, 0.25}}));
  EXPECT_EQ(history[1].score, 0.875);
  EXPECT_EQ(history[1].version, 2);
  EXPECT_EQ(history[0].score, std::nullopt);
  EXPECT_EQ(db->in_force(task).or_throw(), 2) << "the newest";
  EXPECT_EQ(db->in_force(db->task("empty").or_throw()).or_throw(), std::nullopt);
  const auto stale =
      db->query({.collection = collection, .task = task, .stale = true}).or_throw().rows;
  ASSERT_EQ(stale.size(), 2u);
  EXPECT_EQ(stale[0].path, "b.jpg");
  EXPECT_EQ(db->versions(task).or_throw()[0].metrics, "m");
}

TEST(SqliteLabels, ADamagedLabelOfSchema1LeavesTheFileAsItWas) {
  const TemporaryDb file;
  write_schema_1(file.path());
  {
    sql::Database db(file.path());
    db.execute("UPDATE labels SET top_k = '[[1]]' WHERE id = 3");
  }
  EXPECT_THAT(SqliteLabels::open(file.path()).status().message(), ::testing::HasSubstr("top_k"));
  sql::Database db(file.path());
  EXPECT_EQ(db.integer("PRAGMA user_version"), 1);
  EXPECT_EQ(db.integer("SELECT count(*) FROM labels WHERE current = 1"), 3);
}

// Whether the bytes are anywhere in the files of the database.
bool files_hold(const std::string& path, std::string_view bytes) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    std::ifstream in(path + suffix, std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(in), {}};
    if (all.find(bytes) != std::string::npos) return true;
  }
  return false;
}

TEST(SqliteLabels, NothingOfADeletedPhotoIsFoundInTheFiles) {
  const TemporaryDb file;
  auto db = file.open();
  const int64_t collection = db->collection("c").or_throw(), task = db->task("t").or_throw();
  const std::vector<std::string> names{"a"};
  const int64_t a = db->class_ids(task, names).or_throw()[0];
  // Enough for pages to be split and cells to be moved, which leaves copies behind.
  std::vector<PhotoPlace> many = places(0, 2000);
  Rng rng(3);
  for (size_t i = many.size(); i-- > 1;) std::swap(many[i], many[rng.next_below(i + 1)]);
  std::vector<int64_t> ids;
  for (size_t i = 0; i < many.size(); i += 100) {
    const auto some = db->add_photos(collection, std::span(many).subspan(i, 100)).or_throw();
    ids.insert(ids.end(), some.begin(), some.end());
    LabelBatch batch{.task = task, .source = LabelSource::kFolder};
    for (const int64_t id : some) batch.labels.push_back({.photo = id, .class_id = a});
    ASSERT_TRUE(db->put_labels(batch).ok());
  }
  std::vector<int64_t> gone;
  std::vector<std::string> traces;
  for (const size_t i : {0, 777, 1999}) {
    gone.push_back(ids[i]);
    traces.emplace_back(reinterpret_cast<const char*>(many[i].digest.data()), 32);
    traces.push_back(many[i].path);
  }
  for (const std::string& trace : traces) ASSERT_TRUE(files_hold(file.path(), trace));
  EXPECT_EQ(db->remove_photos(gone).or_throw(), 3);
  for (const std::string& trace : traces) EXPECT_FALSE(files_hold(file.path(), trace));
  EXPECT_EQ(db->stats(collection, task).or_throw().labelled, 1997);
  EXPECT_EQ(db->remove_photos(gone).or_throw(), 0) << "once more is harmless";
  const auto again = db->add_photos(collection, places(5000, 1)).or_throw();
  EXPECT_EQ(std::ranges::count(ids, again[0]), 0) << "an id is never given to another photo";
}

TEST(SqliteLabels, ADeletionThatAReaderKeepsFromBeingCompleteSaysSo) {
  const TemporaryDb file;
  auto db = file.open();
  const int64_t collection = db->collection("c").or_throw();
  const auto photos = db->add_photos(collection, places(0, 2)).or_throw();
  {
    sql::Database reader(file.path());
    reader.execute("BEGIN");
    EXPECT_EQ(reader.integer("SELECT count(*) FROM photos"), 2);
    const Status s = db->remove_photos(std::span(photos).first(1)).status();
    EXPECT_EQ(s.code(), Code::kIo);
    EXPECT_THAT(s.message(), ::testing::HasSubstr("once more"));
  }
  EXPECT_EQ(db->find_photo(collection, "photo 0.jpg").status().code(), Code::kNotFound);
  EXPECT_EQ(db->remove_photos(std::span(photos).first(1)).or_throw(), 0);
  EXPECT_FALSE(files_hold(file.path(), "photo 0.jpg"));
}

// To rewrite the files takes as long as they are large, and needs them alone.
TEST(SqliteLabels, ADeletionOnceMoreRewritesTheFilesOnlyWhereSomethingMayBeLeft) {
  const TemporaryDb file;
  auto db = file.open();
  const int64_t collection = db->collection("c").or_throw();
  const auto photos = db->add_photos(collection, places(0, 3)).or_throw();
  const auto first = std::span(photos).first(1);
  EXPECT_EQ(db->remove_photos(first).or_throw(), 1);
  (void)db->add_photos(collection, places(10, 1)).or_throw();
  sql::Database reader(file.path());  // in whose way a rewriting would be
  reader.execute("BEGIN");
  EXPECT_EQ(reader.integer("SELECT count(*) FROM photos"), 3);
  EXPECT_EQ(db->remove_photos(first).or_throw(), 0);
  const auto other = file.open();
  (void)other->collection("d").or_throw();  // it might have been another deletion that was cut off
  EXPECT_EQ(db->remove_photos(first).status().code(), Code::kIo);
  reader.execute("COMMIT");
  EXPECT_EQ(db->remove_photos(first).or_throw(), 0);
  EXPECT_EQ(db->remove_photos(std::span(photos).subspan(1, 1)).or_throw(), 1);
  EXPECT_FALSE(files_hold(file.path(), "photo 1.jpg"));
}

TEST(SqliteLabels, RefusesWhatIsNotALabelDatabase) {
  const TemporaryDb text, foreign, newer;
  std::ofstream(text.path()) << std::string(5000, 'x');
  EXPECT_EQ(SqliteLabels::open(text.path()).status().code(), Code::kCorrupt);
  {
    sql::Database db(foreign.path());
    db.execute("CREATE TABLE theirs (a)");
  }
  EXPECT_EQ(SqliteLabels::open(foreign.path()).status().code(), Code::kUnsupported);
  newer.open().reset();
  {
    sql::Database db(newer.path());
    db.execute("PRAGMA user_version=1000");
  }
  const Status s = SqliteLabels::open(newer.path()).status();
  EXPECT_EQ(s.code(), Code::kUnsupported);
  EXPECT_THAT(s.message(), ::testing::HasSubstr("1000"));
}

TEST(SqliteLabels, AFullDiskIsSaidAndNothingIsLost) {
  const TemporaryDb file;
  auto db = SqliteLabels::open(file.path(), 60).or_throw();
  const int64_t collection = db->collection(kDefaultCollection).or_throw();
  const int64_t task = db->task(kDefaultTask).or_throw();
  const std::vector<std::string> names{"a"};
  const int64_t a = db->class_ids(task, names).or_throw()[0];
  int64_t labelled = 0;
  Status full;
  for (int i = 0; full.ok(); i += 50) {
    ASSERT_LT(i, 100'000);
    const auto photos = db->add_photos(collection, places(i, 50));
    LabelBatch batch{.task = task, .source = LabelSource::kFolder};
    if (photos.ok()) {
      for (const int64_t photo : *photos) batch.labels.push_back({.photo = photo, .class_id = a});
    }
    const auto put = photos.ok() ? db->put_labels(batch) : photos.status();
    full = put.status();
    if (put.ok()) labelled += put->added;
  }
  EXPECT_EQ(full.code(), Code::kNoSpace);
  EXPECT_THAT(full.message(), ::testing::HasSubstr(file.path()));
  EXPECT_GT(labelled, 0);
  EXPECT_EQ(db->stats(collection, task).or_throw().labelled, labelled);
  db = file.open();
  EXPECT_EQ(db->stats(collection, task).or_throw().labelled, labelled);
  EXPECT_TRUE(db->add_photos(collection, places(100'000, 50)).ok()) << "there is room again";
}

TEST(SqliteLabels, DamagedValuesAreReportedAsSuch) {
  const TemporaryDb file;
  auto db = file.open();
  const int64_t collection = db->collection("c").or_throw(), task = db->task("t").or_throw();
  const auto photos = db->add_photos(collection, places(0, 1)).or_throw();
  const std::vector<std::string> names{"a"};
  const int64_t a = db->class_ids(task, names).or_throw()[0];
  ASSERT_TRUE(db->put_labels({.task = task,
                              .source = LabelSource::kHuman,
                              .labels = {{.photo = photos[0], .class_id = a}}})
                  .ok());
  const std::string not_finite = std::string(4, '\0') + "\xff\xff\xff\x7f";
  for (const std::string& top_k : {std::string("["), std::string(9, 'x'), not_finite}) {
    {
      sql::Database raw(file.path());
      sql::Statement(raw, "UPDATE labels SET top_k = ?").bind(std::string_view(top_k)).run();
    }
    EXPECT_EQ(db->history(task, photos[0]).status().code(), Code::kCorrupt) << top_k;
  }
}

TEST(SqliteLabels, TwoConnectionsAndSeveralThreadsWriteOneDatabase) {
  const TemporaryDb file;
  auto first = file.open(), second = file.open();
  const int64_t collection = first->collection("c").or_throw(), task = first->task("t").or_throw();
  const std::vector<std::string> names{"a"};
  const int64_t a = first->class_ids(task, names).or_throw()[0];
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        LabelDb& db = t % 2 ? *first : *second;
        for (int i = 0; i < 5; ++i) {
          const auto photos = db.add_photos(collection, places(20 * t + 10 * (i % 2), 10));
          ASSERT_TRUE(photos.ok()) << photos.status().message();
          LabelBatch batch{.task = task, .source = LabelSource::kFolder};
          for (const int64_t photo : *photos) {
            batch.labels.push_back({.photo = photo, .class_id = a});
          }
          ASSERT_TRUE(db.put_labels(batch).ok());
        }
      });
    }
  }
  EXPECT_EQ(second->stats(collection, task).or_throw().labelled, 80);
}

// Ten seconds behind a writer, which an upload or a job would wait, are for what is to be written.
TEST(SqliteLabels, IsOpenedAndFindsKnownClassesWhileSomebodyWrites) {
  const TemporaryDb file;
  const std::vector<std::string> names{"a", "b"};
  const auto made = file.open();
  const int64_t task = made->task("t").or_throw();
  const std::vector<int64_t> ids = made->class_ids(task, names).or_throw();
  sql::Database writer(file.path());
  const sql::Transaction writes(writer);
  const auto db = open_label_db("sqlite:" + file.path());
  ASSERT_TRUE(db.ok()) << db.status().message();
  const auto found = (*db)->class_ids(task, names);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(*found, ids);
}

TEST(SqliteLabels, AnFsyncThatFailsEndsTheProcess) {
  const FsyncThrows throws;
  const TemporaryDb file;
  const auto db = file.open();
  const support::FailingFsync failing;
  EXPECT_THROW((void)db->task("flowers").ok(), FsyncFailed);
}

}  // namespace
}  // namespace ndtrain::ndp
