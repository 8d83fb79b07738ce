// A database file of which a disk has changed a bit: what is read is what was written, or an error.
#include "ndp/sqlite/page_checksums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>
#include <fstream>

#include "framework/core/rng.h"
#include "ndp/labels/migrations.h"
#include "ndp/labels/sqlite_labels.h"
#include "ndp/sqlite/database_check.h"
#include "ndp/sqlite/snapshot.h"
#include "ndp/sqlite/sqlite.h"
#include "tests/labels/labels_fixture.h"

namespace ndtrain::ndp {
namespace {

using ::testing::HasSubstr;

using namespace testing_labels;

constexpr int kFlips = 400;

std::string bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_bytes(const std::string& path, const std::string& bytes) {
  for (const char* suffix : {"-wal", "-shm"}) std::filesystem::remove(path + suffix);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// All of it as text: photos, their labels, and what these were before.
Result<std::string> all_of(LabelDb& db) {
  const auto collection = db.collection("c");
  if (!collection.ok()) return collection.status();
  const auto task = db.task("t");
  if (!task.ok()) return task.status();
  const auto rows = db.query({.collection = *collection, .task = *task});
  if (!rows.ok()) return rows.status();
  std::string text;
  for (const LabelRow& row : rows->rows) {
    text += row.path + to_hex(row.digest) + row.class_name + std::to_string(row.score.value_or(-1));
    const auto history = db.history(*task, row.photo);
    if (!history.ok()) return history.status();
    for (const auto& h : *history) text += " " + std::to_string(h.time);
    text += "\n";
  }
  return text;
}

void fill(LabelDb& db) {
  const int64_t collection = db.collection("c").or_throw(), task = db.task("t").or_throw();
  const std::vector<std::string> names{"rose", "tulip"};
  const auto classes = db.class_ids(task, names).or_throw();
  std::vector<PhotoPlace> places;
  for (int i = 0; i < 300; ++i) {
    const std::string path = "july/" + std::to_string(i) + ".jpg";
    places.push_back({path, sha256(path)});
  }
  LabelBatch batch{.task = task, .source = LabelSource::kHuman};
  for (const int64_t photo : db.add_photos(collection, places).or_throw()) {
    batch.labels.push_back({.photo = photo, .class_id = classes[photo % 2], .score = 0.5});
  }
  db.put_labels(batch).or_throw();
}

TEST(PageChecksums, AreThoseOfSqlitesOwnExtension) {
  std::vector<uint8_t> page(16, 0);
  page[0] = 1, page[4] = 2, page[8] = 3, page[12] = 4;
  // s1 = 1, s2 = 2 + 1 = 3; s1 += 3 + 3 = 7, s2 += 4 + 7 = 14
  const std::array<uint8_t, 8> sum = {7, 0, 0, 0, 14, 0, 0, 0};
  EXPECT_EQ(sql::page_checksum(page), sum);
}

TEST(PageChecksums, NoBitOfALabelDatabaseIsAnotherUnnoticed) {
  const TemporaryDb file;
  std::string whole;
  {
    const auto db = file.open();
    fill(*db);
    whole = all_of(*db).or_throw();
  }
  const std::string good = bytes_of_file(file.path());
  ASSERT_GT(good.size(), 20U * 4096);
  Rng rng(24, "flips");
  int refused = 0;
  for (int i = 0; i < kFlips; ++i) {
    // The first page, where the header is, as often as all others.
    const size_t at = rng.next_below(i % 2 == 0 ? good.size() : 4096);
    const int bit = static_cast<int>(rng.next_below(8));
    SCOPED_TRACE("bit " + std::to_string(bit) + " of byte " + std::to_string(at));
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
    write_bytes(file.path(), bytes);
    const auto db = SqliteLabels::open(file.path());
    const Result<std::string> now = db.ok() ? all_of(**db) : db.status();
    if (now.ok()) {
      EXPECT_EQ(*now, whole) << "on a page that nothing reads";
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, kFlips / 2);
}

TEST(PageChecksums, SayWhichPageItIs) {
  const TemporaryDb file;
  {
    const auto db = file.open();
    fill(*db);
  }
  std::string bytes = bytes_of_file(file.path());
  for (size_t page = 1; page * 4096 < bytes.size(); ++page) bytes[page * 4096 + 4000] ^= 1;
  write_bytes(file.path(), bytes);
  const auto db = SqliteLabels::open(file.path());
  const Status s = db.ok() ? all_of(**db).status() : db.status();
  EXPECT_EQ(s.code(), Code::kCorrupt);
  EXPECT_THAT(s.message(), HasSubstr(" of " + file.path() + " is not as it was written"));
  EXPECT_EQ(sql::check_database(file.path(), sql::DatabaseCheck::kWhole).code(), Code::kCorrupt);
}

TEST(PageChecksums, ComeToAFileOfAnEarlierProgram) {
  const TemporaryDb file;
  {
    sqlite3* plain = nullptr;
    ASSERT_EQ(sqlite3_open(file.path().c_str(), &plain), SQLITE_OK);
    sqlite3_exec(plain, "CREATE TABLE t (a); DROP TABLE t", nullptr, nullptr, nullptr);
    sqlite3_close(plain);
    sql::Database db(file.path());
    migrate(db, label_migrations().first(4));
    EXPECT_FALSE(db.has_checksums());
    db.execute(
        "INSERT INTO collections VALUES (1, 'c'); INSERT INTO photos VALUES (5, zeroblob(32));"
        "INSERT INTO places (collection, path, photo) VALUES (1, 'a.jpg', 5)");
  }
  ASSERT_EQ(bytes_of_file(file.path())[20], 0);
  for (int again = 0; again < 2; ++again) {
    const auto db = file.open();
    EXPECT_EQ(db->find_photo(db->collection("c").or_throw(), "a.jpg").or_throw(), 5);
    EXPECT_EQ(bytes_of_file(file.path())[20], 8);
  }
  EXPECT_TRUE(sql::check_database(file.path(), sql::DatabaseCheck::kWhole).ok());
}

TEST(PageChecksums, ACheckOfAllEndsWhenItIsToldTo) {
  const TemporaryDb file;
  fill(*file.open());
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(sql::check_database(file.path(), sql::DatabaseCheck::kWhole, stop.get_token()).code(),
            Code::kCancelled);
  EXPECT_TRUE(sql::check_database(file.path(), sql::DatabaseCheck::kPages).ok());
}

TEST(PageChecksums, GoAlongIntoACopy) {
  const TemporaryDb file, copy;
  const auto db = file.open();
  fill(*db);  // much of it is in the write-ahead log
  sql::Snapshot::of(file.path()).or_throw().copy_to(copy.path()).or_throw();
  EXPECT_EQ(bytes_of_file(copy.path())[20], 8);
  EXPECT_TRUE(sql::check_database(copy.path(), sql::DatabaseCheck::kWhole).ok());
  EXPECT_EQ(all_of(*copy.open()).or_throw(), all_of(*db).or_throw());
}

}  // namespace
}  // namespace ndtrain::ndp
