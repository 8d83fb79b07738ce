#include "ndp/sqlite/sqlite.h"

#include <sqlite3.h>

#include <atomic>
#include <utility>

#include "framework/core/fsync.h"
#include "ndp/sqlite/page_checksums.h"

namespace ndtrain::ndp::sql {
namespace {

constexpr int kBusyMilliseconds = 10'000;
constexpr int kMaxValueBytes = 64 << 20;

Code code_of(int error) {
  switch (error & 0xff) {
    case SQLITE_FULL:
      return Code::kNoSpace;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Code::kCorrupt;
    case SQLITE_INTERRUPT:
      return Code::kCancelled;
    case SQLITE_TOOBIG:
      return Code::kTooLarge;
    case SQLITE_CONSTRAINT:
      return Code::kNotFound;
    default:
      return Code::kIo;
  }
}

[[noreturn]] void fail(sqlite3* db, int error) {
  const char* file = db != nullptr ? sqlite3_db_filename(db, "main") : nullptr;
  const std::string what = std::string(file != nullptr ? file : "database") + ": " +
                           (db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(error));
  const int why = db != nullptr ? sqlite3_extended_errcode(db) : error;
  if (why == SQLITE_IOERR_FSYNC || why == SQLITE_IOERR_DIR_FSYNC) {
    fsync_failed(what);
  }
  // Of a page of the schema, which it reads first, SQLite says no more than that it is an error.
  if (why == SQLITE_IOERR_DATA || why == SQLITE_IOERR) {
    if (std::string page = take_page_fault(); !page.empty() || why == SQLITE_IOERR_DATA) {
      throw Failure{Status(Code::kCorrupt, std::move(page))};
    }
  }
  throw Failure{Status(code_of(error), what)};
}

void check(sqlite3* db, int result) {
  if (result != SQLITE_OK) fail(db, result);
}

using TextToBlob = std::function<std::string(const std::string&)>;

void call(sqlite3_context* context, int, sqlite3_value** values) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_value_text(values[0]));
  if (text == nullptr) return;  // NULL
  try {
    const auto& f = *static_cast<const TextToBlob*>(sqlite3_user_data(context));
    const std::string blob = f(text);
    sqlite3_result_blob64(context, blob.data(), blob.size(), SQLITE_TRANSIENT);
  } catch (const Failure& failure) {
    sqlite3_result_error(context, failure.status.message().c_str(), -1);
  } catch (const std::exception& e) {
    sqlite3_result_error(context, e.what(), -1);
  }
}

// The heap that SQLite had by itself, counted without a lock.
sqlite3_mem_methods heap{};
std::atomic<int64_t> used = 0;  // bytes

void* counted_malloc(int bytes) {
  void* const p = heap.xMalloc(bytes);
  if (p != nullptr) used += heap.xSize(p);
  return p;
}

void counted_free(void* p) {
  used -= heap.xSize(p);
  heap.xFree(p);
}

void* counted_realloc(void* p, int bytes) {
  const int before = heap.xSize(p);
  void* const now = heap.xRealloc(p, bytes);
  if (now != nullptr) used += heap.xSize(now) - before;
  return now;
}

// Once, before anything else of SQLite. Its own counts cost a lock for each allocation.
bool count_memory() {
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &heap) != SQLITE_OK) return false;
  sqlite3_mem_methods counted = heap;
  counted.xMalloc = counted_malloc;
  counted.xFree = counted_free;
  counted.xRealloc = counted_realloc;
  return sqlite3_config(SQLITE_CONFIG_MALLOC, &counted) == SQLITE_OK;
}

}  // namespace

Database::Database(const std::string& path) {
  [[maybe_unused]] static const bool before_all_else = count_memory();
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  try {
    const int opened = sqlite3_open_v2(path.c_str(), &db_, flags, page_checksum_vfs());
    if (opened != SQLITE_OK) {  // db_ does not know its file yet
      throw Failure{Status(code_of(opened), path + ": " + sqlite3_errstr(opened))};
    }
    reserve_page_checksums(db_);
    check(db_, sqlite3_busy_timeout(db_, kBusyMilliseconds));
    check(db_, sqlite3_db_config(db_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr));
    sqlite3_limit(db_, SQLITE_LIMIT_LENGTH, kMaxValueBytes);
    execute("PRAGMA trusted_schema=OFF; PRAGMA foreign_keys=ON; PRAGMA cell_size_check=ON");
  } catch (...) {
    sqlite3_close(db_);
    throw;
  }
}

Database::~Database() { sqlite3_close(db_); }

void Database::execute(const std::string& sql) {
  check(db_, sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr));
}

bool Database::has_file() const {
  const char* const file = sqlite3_db_filename(db_, "main");
  return file != nullptr && *file != '\0';
}

bool Database::has_checksums() const { return has_page_checksums(db_); }

void Database::add_checksums() {
  if (has_checksums()) return;
  execute("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
}

void Database::define(const char* name, std::function<std::string(const std::string&)> f) {
  check(db_, sqlite3_create_function_v2(db_, name, 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                                        new TextToBlob(std::move(f)), call, nullptr, nullptr,
                                        [](void* p) { delete static_cast<TextToBlob*>(p); }));
}

int64_t Database::integer(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer(0) : 0;
}

int64_t Database::last_id() const { return sqlite3_last_insert_rowid(db_); }
int64_t Database::changes() const { return sqlite3_changes64(db_); }

Statement::Statement(Database& db, std::string_view sql) {
  check(db.handle(), sqlite3_prepare_v3(db.handle(), sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &statement_, nullptr));
}

Statement::~Statement() { sqlite3_finalize(statement_); }

// What went wrong was thrown by step(); sqlite3_reset only repeats it.
void Statement::reset() { sqlite3_reset(statement_); }

void Statement::bind_one(int i, int64_t value) {
  check(sqlite3_db_handle(statement_), sqlite3_bind_int64(statement_, i + 1, value));
}

void Statement::bind_one(int i, double value) {
  check(sqlite3_db_handle(statement_), sqlite3_bind_double(statement_, i + 1, value));
}

void Statement::bind_one(int i, std::string_view text) {
  // Empty text, unlike a null pointer, is not NULL.
  const char* data = text.empty() ? "" : text.data();
  check(sqlite3_db_handle(statement_),
        sqlite3_bind_text64(statement_, i + 1, data, text.size(), SQLITE_STATIC, SQLITE_UTF8));
}

void Statement::bind_one(int i, std::span<const uint8_t> blob) {
  const void* data = blob.empty() ? "" : static_cast<const void*>(blob.data());
  check(sqlite3_db_handle(statement_),
        sqlite3_bind_blob64(statement_, i + 1, data, blob.size(), SQLITE_STATIC));
}

void Statement::bind_one(int i, std::nullopt_t) {
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
double Statement::real(int column) const { return sqlite3_column_double(statement_, column); }

std::string Statement::bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int n = sqlite3_column_bytes(statement_, column);
  if (data == nullptr) return {};
  return {static_cast<const char*>(data), static_cast<size_t>(n)};
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

int64_t memory_used() { return used; }

}  // namespace ndtrain::ndp::sql
