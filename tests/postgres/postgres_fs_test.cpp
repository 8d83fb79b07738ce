// Files in a database keep what every Fs promises, and what only they do: pieces larger than a row,
// a server that is killed, other processes.
#include "ndp/postgres/postgres_fs.h"

#include <gmock/gmock.h>

#include "framework/core/publish.h"
#include "framework/testing/fsync_throws.h"
#include "tests/postgres/state_fixture.h"
#include "tests/support/any_fs.h"

namespace ndtrain::testing_fs {

std::shared_ptr<Fs> fs_of_a_new_database() {
  auto holder =
      std::make_shared<testing_state::Holder>(support::PostgresServer::shared().new_database());
  return {holder, holder->fs.get()};
}

INSTANTIATE_TEST_SUITE_P(, AnyFs,
                         ::testing::Values(FsKind{"Postgres", fs_of_a_new_database, false,
                                                  support::PostgresServer::lacking()}),
                         name_of_kind);

}  // namespace ndtrain::testing_fs

namespace ndtrain::testing_state {
namespace {

using support::bytes_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using PostgresFiles = StateTest;

std::string some_bytes(size_t n) {
  std::string bytes(n, '\0');
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<char>(i * 2'654'435'761u >> 24);
  return bytes;
}

TEST_F(PostgresFiles, AFileOfManyChunksIsReadFromAnywhere) {
  const Holder holder(url);
  const std::string bytes = some_bytes(3'500'000);
  {
    const auto file = holder.fs->open("f", Fs::Mode::kCreate).or_throw();
    const std::string_view all = bytes;
    file->append(bytes_of(all.substr(0, 100))).or_throw();
    file->append(bytes_of(all.substr(100, 3'000'000))).or_throw();
    file->append(bytes_of(all.substr(3'000'100))).or_throw();
  }
  EXPECT_EQ(holder.fs->read("f").or_throw(), bytes);
  const auto file = holder.fs->open("f", Fs::Mode::kAppend).or_throw();
  std::string part(1'200'000, '?');
  for (const int64_t from : {0, 99, 100, 1'048'675, 1'048'676, 2'999'999, 3'400'000}) {
    const size_t n = file->read_at(from, std::as_writable_bytes(std::span(part))).or_throw();
    EXPECT_EQ(part.substr(0, n), bytes.substr(static_cast<size_t>(from), part.size())) << from;
  }
  file->truncate(1'048'700).or_throw();
  file->append(bytes_of("end")).or_throw();
  EXPECT_EQ(holder.fs->read("f").or_throw(), bytes.substr(0, 1'048'700) + "end");
}

TEST_F(PostgresFiles, ADirectoryMovesWithAllThatIsBelowIt) {
  const Holder holder(url);
  for (const char* name : {"a/b/c", "a0", "a.x/y", "a/z"}) {
    support::write_file(*holder.fs, name, name);
  }
  holder.fs->make_directories("to").or_throw();
  holder.fs->rename("a", "to/n").or_throw();
  EXPECT_EQ(holder.fs->read("to/n/b/c").or_throw(), "a/b/c");
  EXPECT_THAT(holder.fs->list("to/n").or_throw(), ElementsAre("b", "z"));
  EXPECT_THAT(holder.fs->list("").or_throw(), ElementsAre("a.x", "a0", "to"));
}

TEST_F(PostgresFiles, WhatWasSyncedOutlivesAServerThatIsKilled) {
  support::PostgresServer own;
  const std::string database = own.new_database();
  {
    const Holder holder(database);
    publish(*holder.fs, "published", "whole").or_throw();
    const auto log = holder.fs->open("log", Fs::Mode::kAppend).or_throw();
    log->append(bytes_of("synced")).or_throw();
    log->sync();
    own.kill();
    const FsyncThrows throws;  // nobody knows what the server has of a write that was under way
    EXPECT_THROW(static_cast<void>(log->append(bytes_of("more")).ok()), FsyncFailed);
    EXPECT_FALSE(holder.fs->read("log").ok());
    own.start();
    EXPECT_EQ(holder.fs->read("log").or_throw(), "synced") << "who reads connects anew";
    EXPECT_THROW(static_cast<void>(log->append(bytes_of("more")).ok()), FsyncFailed);
  }
  const Holder next(database);
  EXPECT_EQ(next.fs->read("published").or_throw(), "whole");
  EXPECT_EQ(next.fs->read("log").or_throw(), "synced");
}

TEST_F(PostgresFiles, WithoutATermTheyAreOnlyRead) {
  {
    const Holder holder(url);
    publish(*holder.fs, "f", "x").or_throw();
  }
  const auto reader = PostgresFs::open(url).or_throw();
  EXPECT_EQ(reader->read("f").or_throw(), "x");
  const Status s = reader->remove("f");
  EXPECT_EQ(s.code(), Code::kUnsupported);
  EXPECT_THAT(s.message(), HasSubstr("only read"));
}

TEST_F(PostgresFiles, LocksHoldBetweenProcessesAndTemporariesOfOthersStay) {
  const Holder holder(url);
  const auto beside = PostgresFs::open(holder.lease->url()).or_throw();
  {
    const auto lock = holder.fs->lock("l").or_throw();
    EXPECT_EQ(beside->lock("l").status().code(), Code::kExists);
  }
  EXPECT_TRUE(beside->lock("l").ok());
  auto publisher = Publisher::start(*holder.fs, "f").or_throw();
  publisher.write("whole").or_throw();
  sweep_temporaries(*beside, "");
  publisher.commit().or_throw();
  EXPECT_EQ(beside->read("f").or_throw(), "whole");
}

}  // namespace
}  // namespace ndtrain::testing_state
