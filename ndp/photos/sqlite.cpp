#include "ndp/photos/sqlite.h"

#include <sqlite3.h>

namespace ndtrain::sqlite {
namespace {

constexpr int kBusyMilliseconds = 10'000;

Code code_of(int error) {
  switch (error & 0xff) {
    case SQLITE_FULL:
      return Code::kNoSpace;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Code::kCorrupt;
    default:
      return Code::kIo;
  }
}

[[noreturn]] void fail(sqlite3* db, int error) {
  const char* file = db != nullptr ? sqlite3_db_filename(db, "main") : nullptr;
  throw SqliteFailure{
      Status(code_of(error), std::string(file != nullptr ? file : "catalogue") + ": " +
                                 (db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(error)))};
}

void check(sqlite3* db, int result) {
  if (result != SQLITE_OK) fail(db, result);
}

}  // namespace

Database::Database(const std::string& path) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  try {
    check(db_, sqlite3_open_v2(path.c_str(), &db_, flags, nullptr));
    check(db_, sqlite3_busy_timeout(db_, kBusyMilliseconds));
    execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL");
  } catch (...) {
    sqlite3_close(db_);
    throw;
  }
}

Database::~Database() { sqlite3_close(db_); }

void Database::execute(const char* sql) {
  check(db_, sqlite3_exec(db_, sql, nullptr, nullptr, nullptr));
}

Statement::Statement(Database& db, const char* sql) {
  check(db.handle(),
        sqlite3_prepare_v3(db.handle(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr));
}

Statement::~Statement() { sqlite3_finalize(statement_); }

// What went wrong was thrown by step(); sqlite3_reset only repeats it.
void Statement::reset() { sqlite3_reset(statement_); }

void Statement::bind_one(int i, int64_t value) {
  check(sqlite3_db_handle(statement_), sqlite3_bind_int64(statement_, i + 1, value));
}

void Statement::bind_one(int i, std::string_view bytes) {
  // An empty blob, unlike a null pointer, is not NULL.
  const char* data = bytes.empty() ? "" : bytes.data();
  check(sqlite3_db_handle(statement_),
        sqlite3_bind_blob64(statement_, i + 1, data, bytes.size(), SQLITE_STATIC));
}

void Statement::bind_one(int i, const std::optional<std::span<const uint8_t>>& bytes) {
  if (bytes) return bind_one(i, {reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  check(sqlite3_db_handle(statement_), sqlite3_bind_null(statement_, i + 1));
}

bool Statement::step() {
  const int result = sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result != SQLITE_DONE) fail(sqlite3_db_handle(statement_), result);
  // A finished reader must not hold the write-ahead log back.
  reset();
  return false;
}

void Statement::run() {
  while (step()) {
  }
}

int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_, column); }

std::string Statement::bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int n = sqlite3_column_bytes(statement_, column);
  return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), n);
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

Transaction::Transaction(Database& db) : db_(db) { db_.execute("BEGIN IMMEDIATE"); }

Transaction::~Transaction() {
  if (open_) sqlite3_exec(db_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  db_.execute("COMMIT");
  open_ = false;
}

}  // namespace ndtrain::sqlite
