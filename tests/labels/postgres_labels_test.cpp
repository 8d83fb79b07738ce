// What a label database on a server goes through: a server that dies, other people's tables, bytes
// that are no text.
#include "ndp/labels/postgres_labels.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/labels/labels_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_labels;
using ::testing::HasSubstr;

class PostgresLabels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!support::PostgresServer::lacking().empty()) {
      GTEST_SKIP() << support::PostgresServer::lacking();
    }
  }
  static support::PostgresServer& server() { return support::PostgresServer::shared(); }
};

// A relabelling of 600 photos that goes on after every failure; returns how often it failed.
int label_all(LabelDb& db, const std::function<void(int64_t)>& after_batch) {
  int failures = 0;
  const auto insist = [&](const auto& call) {
    for (;;) {
      auto result = call();
      if (result.ok()) return std::move(*result);
      EXPECT_EQ(result.status().code(), Code::kIo) << result.status().message();
      ++failures;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  };
  const int64_t collection = insist([&] { return db.collection("c"); });
  const int64_t task = insist([&] { return db.task("t"); });
  const std::vector<std::string> names{"a"};
  const int64_t a = insist([&] { return db.class_ids(task, names); })[0];
  const auto photos = insist([&] { return db.add_photos(collection, places(0, 600)); });
  const int64_t v = insist([&] { return db.version(task, {.content = sha256("v")}); });
  for (int64_t labelled = 0;;) {
    const auto done = insist([&] { return db.labelled_by(v, photos); });
    const auto todo = some_without(done, photos, 20);
    if (todo.empty()) return failures;
    LabelBatch batch{.task = task, .version = v};
    for (const int64_t photo : todo) batch.labels.push_back({.photo = photo, .class_id = a});
    labelled += insist([&] { return db.put_labels(batch); }).added;
    after_batch(labelled);
  }
}

TEST_F(PostgresLabels, AServerThatIsKilledAndStartedAgainLosesNothingAndNothingIsTwice) {
  const TemporaryDb file("postgresql");
  auto db = file.open();
  std::jthread killer;
  int kills = 0;
  const int failures = label_all(*db, [&](int64_t labelled) {
    if (labelled / 120 <= kills) return;
    ++kills;
    if (killer.joinable()) killer.join();
    killer = std::jthread([] {
      server().kill();
      server().start();
    });
  });
  if (killer.joinable()) killer.join();
  EXPECT_GE(kills, 3);
  EXPECT_GE(failures, 1) << "the server was never away when it was needed";
  const int64_t collection = db->collection("c").or_throw(), task = db->task("t").or_throw();
  EXPECT_EQ(db->stats(collection, task).or_throw().labelled, 600);
  for (const LabelRow& r : db->query({.collection = collection, .task = task}).or_throw().rows) {
    ASSERT_EQ(db->history(task, r.photo).or_throw().size(), 1u);
  }
}

TEST_F(PostgresLabels, AServerThatIsAwaySaysSoAndTheNextCallFindsItAgain) {
  const TemporaryDb file("postgresql");
  auto db = file.open();
  const int64_t collection = db->collection("c").or_throw();
  server().kill();
  const Status away = db->collection("c").status();
  EXPECT_EQ(away.code(), Code::kIo);
  EXPECT_THAT(away.message(), HasSubstr("no connection to the PostgreSQL server"));
  EXPECT_EQ(open_label_db(file.url()).status().code(), Code::kIo);
  server().start();
  EXPECT_EQ(db->collection("c").or_throw(), collection);
}

TEST_F(PostgresLabels, AConnectionThatBrokeWhileIdleIsNotNoticed) {
  const TemporaryDb file("postgresql");
  auto db = file.open();
  const int64_t collection = db->collection("c").or_throw();
  server().kill();
  server().start();
  EXPECT_EQ(db->collection("c").or_throw(), collection);
}

TEST_F(PostgresLabels, RefusesWhatIsNotALabelDatabase) {
  const TemporaryDb foreign("postgresql"), newer("postgresql"), empty("postgresql");
  postgres::Connection(foreign.url(), "CREATE TABLE photos (theirs TEXT)");
  EXPECT_EQ(open_label_db(foreign.url()).status().code(), Code::kUnsupported);
  newer.open().reset();
  postgres::Connection(newer.url(), "UPDATE ndtrain_labels SET schema_version = 1000");
  const Status s = open_label_db(newer.url()).status();
  EXPECT_EQ(s.code(), Code::kUnsupported);
  EXPECT_THAT(s.message(), HasSubstr("1000"));
  EXPECT_EQ(open_label_db(empty.url(), OpenLabelDb::kExisting).status().code(), Code::kNotFound);
  empty.open();
  EXPECT_TRUE(open_label_db(empty.url(), OpenLabelDb::kExisting).ok());
}

TEST_F(PostgresLabels, AServerThatIsNotThereIsNamedWithoutThePassword) {
  const Status s = open_label_db("postgresql://ann:secret@/x?host=/nowhere").status();
  EXPECT_EQ(s.code(), Code::kIo);
  EXPECT_THAT(s.message(), HasSubstr("/nowhere"));
  EXPECT_THAT(s.message(), ::testing::Not(HasSubstr("secret")));
}

TEST_F(PostgresLabels, PathsAndNamesMayBeAnyBytes) {
  const TemporaryDb file("postgresql");
  auto db = file.open();
  const std::string latin = "sch\xf6n.jpg", name = "\xff\xfe";
  const int64_t collection = db->collection(name).or_throw(), task = db->task("t").or_throw();
  const PhotoPlace place{latin, sha256("x")};
  db->add_photos(collection, {&place, 1}).or_throw();
  set_label(*db, collection, task, latin, name, 1).or_throw();
  const auto rows = db->query({.collection = collection, .task = task}).or_throw().rows;
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].path, latin);
  EXPECT_EQ(rows[0].class_name, name);
}

TEST_F(PostgresLabels, SeveralConnectionsAndThreadsWriteOneDatabase) {
  const TemporaryDb file("postgresql");
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
          // Every photo by two threads.
          const auto photos = db.add_photos(collection, places(20 * (t / 2) + 10 * (i % 2), 10));
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
  const auto rows = second->query({.collection = collection, .task = task}).or_throw().rows;
  EXPECT_EQ(rows.size(), 40u);
  for (const LabelRow& r : rows) EXPECT_EQ(second->history(task, r.photo).or_throw().size(), 1u);
}

}  // namespace
}  // namespace ndtrain::ndp
