// A Tuner's state moves from its directory into a database: all of it, once, and whenever the
// process that moves it dies exactly one of the two is in force.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "framework/core/log.h"
#include "framework/testing/faulty_fs.h"
#include "framework/testing/fsync_throws.h"
#include "tests/cli/state_move_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_cli::files_below;
using testing_cli::FileTexts;
using tuner::MovedState;
using tuner::StateMove;

class StateMoveTest : public testing_cli::StateMoveFixture {
 protected:
  StateMoveTest() { log::set_level(log::Level::kOff); }
  ~StateMoveTest() override { log::set_level(log::Level::kInfo); }

  static MovedState move(const StateMove& how) {
    return tuner::move_state(real_fs(), system_clock(), how);
  }
  static std::string refused(const StateMove& what) {
    try {
      (void)move(what);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
  // A directory of its own that is as the first one was.
  std::string copy(const std::string& name) const {
    const std::string to = root_.at(name);
    std::filesystem::copy(dir_, to, std::filesystem::copy_options::recursive);
    return to;
  }
};

TEST_F(StateMoveTest, AllOfItIsThereAndTheDirectoryStaysAsItIsButServesNoMore) {
  const std::string url = new_database();
  const MovedState moved = move({.directory = dir_, .url = url});
  EXPECT_FALSE(moved.was_done || moved.has_labels_there);
  EXPECT_THAT(moved.left_out, ElementsAre("features", "holders", "jobs/1/spool"));
  expect_all_in(url, dir_);
  EXPECT_FALSE(directory_serves(dir_));
  EXPECT_THAT(StateDirectory::open(real_fs(), dir_, "tuner").status().message(),
              HasSubstr("was moved: the state of this Tuner is in " + url));
  EXPECT_FALSE(StateDirectory::open(real_fs(), dir_, "pipestore").ok());
}

// A table or a column that the schema is given later and the move is not told of.
TEST_F(StateMoveTest, NoTableOrColumnOfLabelsIsLeftOut) {
  const std::string url = new_database();
  const MovedState moved = move({.directory = dir_, .url = url});
  std::set<std::string> compared;
  for (const LabelTable& t : moved.labels) compared.insert(t.name);
  sql::Database from(join(dir_, "labels.db"));
  postgres::Connection to(url, "SET client_min_messages = warning");
  sql::Statement columns(from,
                         "SELECT t.name, c.name FROM sqlite_master AS t, pragma_table_info(t.name)"
                         " AS c WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'");
  int found = 0;
  while (columns.step()) {
    const std::string table = columns.bytes(0), column = columns.bytes(1);
    SCOPED_TRACE(table + "." + column);
    EXPECT_TRUE(compared.contains(table));
    const std::string values = "SELECT count(" + column + ") FROM " + table;
    EXPECT_EQ(to.query(values, {}).integer(0, 0), from.integer(values));
    ++found;
  }
  EXPECT_GT(found, 40);
}

TEST_F(StateMoveTest, WhatComesNextIsNumberedOn) {
  const std::string url = new_database();
  const auto next = [](const std::string& of) {
    const auto db = open_label_db(of).or_throw();
    const int64_t task = db->task("default").or_throw();
    const PhotoPlace place{"next", sha256("next")};
    const std::vector<std::string> name = {"daisy"};
    std::vector<int64_t> ids =
        db->add_photos(db->collection("default").or_throw(), {&place, 1}).or_throw();
    ids.push_back(db->class_ids(task, name).or_throw()[0]);
    ids.push_back(db->task("next").or_throw());
    ids.push_back(db->store("next").or_throw());
    ids.push_back(
        db->version(task, {.content = sha256("next"), .parent = {}, .metrics = ""}).or_throw());
    return ids;
  };
  (void)move({.directory = dir_, .url = url});
  EXPECT_EQ(next(url), next("sqlite:" + join(dir_, "labels.db")));
}

TEST_F(StateMoveTest, ALookChangesNothing) {
  const std::string url = new_database();
  const MovedState would = tuner::look_at_move(real_fs(), {.directory = dir_, .url = url});
  EXPECT_EQ(would.files.size(), 4U);
  int64_t labels = 0;
  for (const LabelTable& t : would.labels) labels += t.name == "labels" ? t.rows : 0;
  EXPECT_EQ(labels, 19 * 2 + 5);
  FileTexts now = files_below(real_fs(), dir_);
  EXPECT_EQ(now["state.json"], before_["state.json"]);
  postgres::Connection db(url, "SET client_min_messages = warning");
  EXPECT_EQ(db.query("SELECT 1 FROM pg_tables WHERE schemaname IN ('public', 'ndtrain_state')", {})
                .rows(),
            0);
  EXPECT_TRUE(directory_serves(dir_));
}

TEST_F(StateMoveTest, ASecondTimeDoesNothingAndAnotherPlaceIsRefused) {
  const std::string url = new_database(), other = new_database();
  (void)move({.directory = dir_, .url = url});
  EXPECT_TRUE(move({.directory = dir_, .url = url}).was_done);
  expect_all_in(url, dir_);
  EXPECT_THAT(refused({.directory = dir_, .url = other}), HasSubstr("was moved"));
  EXPECT_FALSE(database_serves(other));
  const std::string second = root_.at("second");
  make_state(second);
  EXPECT_THAT(refused({.directory = second, .url = url}), HasSubstr("has the state of a Tuner"));
  EXPECT_TRUE(directory_serves(second));
}

TEST_F(StateMoveTest, LabelsOfOneOfBothAreTaken) {
  const std::string url = new_database(), mixed = new_database(), empty = new_database();
  make_labels(mixed);
  EXPECT_THAT(refused({.directory = dir_, .url = mixed}), HasSubstr("the database has labels"));
  EXPECT_TRUE(directory_serves(dir_));
  const std::string third = copy("third"), named = new_database();
  make_labels(named);
  EXPECT_TRUE(move({.directory = third, .url = named, .labels = named}).has_labels_there);
  EXPECT_EQ(said_in(named), said_);
  const std::string labels = root_.at("elsewhere.db");
  for (const char* name : {"labels.db", "labels.db-wal", "labels.db-shm"}) {
    std::filesystem::remove(join(dir_, name));
  }
  EXPECT_THAT(refused({.directory = dir_, .url = empty}), HasSubstr("--db"));
  EXPECT_THAT(refused({.directory = dir_, .url = empty, .labels = mixed}), HasSubstr("pg_dump"));
  EXPECT_TRUE(directory_serves(dir_));
  const std::string second = copy("second");
  make_labels("sqlite:" + labels);
  EXPECT_FALSE(
      move({.directory = dir_, .url = url, .labels = "sqlite:" + labels}).has_labels_there);
  EXPECT_EQ(said_in(url), said_);
  EXPECT_TRUE(move({.directory = second, .url = mixed, .labels = mixed}).has_labels_there);
  EXPECT_EQ(said_in(mixed), said_);
}

TEST_F(StateMoveTest, ATunerAtWorkOrATokenThatIsMadeForbidsIt) {
  const std::string url = new_database();
  for (const char* lock : {"lock", "tokens.lock", "audit.lock"}) {
    const auto held = real_fs().lock(join(dir_, lock)).or_throw();
    EXPECT_NE(refused({.directory = dir_, .url = url}), "") << lock;
  }
  EXPECT_FALSE(database_serves(url));
  EXPECT_TRUE(directory_serves(dir_));
}

// As kill -9 does, behind every step there is.
TEST_F(StateMoveTest, WhereverItIsKilledOneOfTheTwoIsInForceAndItCanBeDoneAgain) {
  bool ended = false;
  int in_force[2] = {0, 0};
  for (int n = 1; !ended; ++n) {
    SCOPED_TRACE("killed in step " + std::to_string(n));
    const std::string url = new_database(), dir = copy("killed" + std::to_string(n));
    const pid_t child = fork();
    if (child == 0) {
      int steps = 0;
      const auto step = [&](const std::string&) {
        if (++steps == n) raise(SIGKILL);
      };
      try {
        (void)move({.directory = dir, .url = url, .step = step});
      } catch (...) {
        _exit(1);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ended = WIFEXITED(status);
    ASSERT_TRUE(!ended || WEXITSTATUS(status) == 0);
    // Before somebody looks at the directory, and after.
    if (n % 2 == 0) {
      EXPECT_EQ(directory_serves(dir), !database_serves(url));
    }
    const bool there = database_serves(url);
    ++in_force[there];
    EXPECT_EQ(move({.directory = dir, .url = url}).was_done, there);
    EXPECT_FALSE(directory_serves(dir));
    expect_all_in(url, dir);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(in_force[0], 20);
  EXPECT_GT(in_force[1], 1);
}

TEST_F(StateMoveTest, WhereTheServerIsGoneTheDirectoryWaitsUntilItIsKnown) {
  support::PostgresServer server;
  const std::string url = server.new_database();
  const auto step = [&](const std::string& what) {
    if (what == "labels") server.kill();
  };
  EXPECT_THAT(refused({.directory = dir_, .url = url, .step = step}), HasSubstr("cannot be said"));
  EXPECT_FALSE(directory_serves(dir_));
  EXPECT_THAT(StateDirectory::open(real_fs(), dir_, "tuner").status().message(),
              HasSubstr("was on its way to"));
  server.start();
  EXPECT_TRUE(directory_serves(dir_));
  EXPECT_FALSE(database_serves(url));
  EXPECT_FALSE(move({.directory = dir_, .url = url}).was_done);
  expect_all_in(url, dir_);
}

TEST_F(StateMoveTest, ADiskThatFailsLeavesOneOfTheTwoInForce) {
  const FsyncThrows throws;
  std::string url = new_database(), dir = copy("faulty0");
  int struck = 0;
  for (int n = 1;; ++n) {
    SCOPED_TRACE("operation " + std::to_string(n));
    FaultyFs disk(real_fs());
    disk.strike(n, Fault::kIo);
    std::string why;
    try {
      (void)tuner::move_state(disk, system_clock(), {.directory = dir, .url = url});
    } catch (const Error& e) {
      why = e.what();
    } catch (const FsyncFailed&) {
      why = "an fsync failed";
    }
    if (!disk.struck()) break;
    SCOPED_TRACE("move: " + why);
    ++struck;
    const bool there = database_serves(url);
    EXPECT_EQ(directory_serves(dir), !there);
    if (!there) continue;
    expect_all_in(url, dir);
    url = new_database();
    dir = copy("faulty" + std::to_string(n));
  }
  EXPECT_GT(struck, 30);
  expect_all_in(url, dir);
}

TEST(WithoutPassword, ShowsTheRest) {
  const auto shown = [](const char* url) { return postgres::without_password(url); };
  EXPECT_EQ(shown("postgresql://ann:secret@h:5432/db"), "postgresql://ann@h:5432/db");
  EXPECT_EQ(shown("postgresql://h:5432/db"), "postgresql://h:5432/db");
  EXPECT_EQ(shown("postgresql://ann@/db?host=/a:b"), "postgresql://ann@/db?host=/a:b");
  EXPECT_EQ(shown("postgresql://h/db?password=x&port=1"), "postgresql://h/db?port=1");
  EXPECT_EQ(shown("postgresql://h/db?port=1&password=x"), "postgresql://h/db?port=1");
  EXPECT_EQ(shown("postgresql://h/db?password=x"), "postgresql://h/db");
  EXPECT_EQ(shown("postgresql://ann:a@b@h/db"), "postgresql://ann@h/db");
}

}  // namespace
}  // namespace ndtrain
