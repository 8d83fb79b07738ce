// As much of SQLite as the catalogue needs. A failure is thrown as SqliteFailure, which never
// leaves ndp/photos: public functions return its Status.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "framework/core/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace ndtrain::sqlite {

struct SqliteFailure {
  Status status;
};

class Database {
 public:
  explicit Database(const std::string& path);  // made if absent; write-ahead log
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void execute(const char* sql);
  sqlite3* handle() const { return db_; }

 private:
  sqlite3* db_ = nullptr;
};

// A prepared statement. Parameters and columns count from 0; text is bound as bytes and must live
// until the statement is stepped.
class Statement {
 public:
  Statement(Database& db, const char* sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  template <typename... Args>
  Statement& bind(const Args&... args) {  // from the first row again
    reset();
    int i = 0;
    (bind_one(i++, args), ...);
    return *this;
  }
  bool step();  // false: no more rows
  void run();   // to the end

  int64_t integer(int column) const;
  std::string bytes(int column) const;
  bool is_null(int column) const;

 private:
  void reset();
  void bind_one(int i, int64_t value);
  void bind_one(int i, std::string_view bytes);
  void bind_one(int i, const std::optional<std::span<const uint8_t>>& bytes);

  sqlite3_stmt* statement_ = nullptr;
};

// Rolls back unless committed.
class Transaction {
 public:
  explicit Transaction(Database& db);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& db_;
  bool open_ = true;
};

}  // namespace ndtrain::sqlite
