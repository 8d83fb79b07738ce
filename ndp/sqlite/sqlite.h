// As much of SQLite as our databases need. What goes wrong is thrown as Failure; the folder that
// uses this catches it and returns its Status.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ndp/sqlite/failure.h"

struct sqlite3;
struct sqlite3_stmt;

namespace ndtrain::ndp::sql {

// Bytes of the heap that SQLite has, of all databases of the process: mostly pages that it has
// read.
int64_t memory_used();

// A connection; one thread at a time.
class Database {
 public:
  // Made if absent, with checksums on its pages (page_checksums.h). The file may come from anybody:
  // its schema is not trusted.
  explicit Database(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void execute(const std::string& sql);  // never with text from outside
  // A function of SQL from text to a blob; NULL stays NULL. What `f` throws fails the statement.
  void define(const char* name, std::function<std::string(const std::string&)> f);
  bool has_file() const;  // false: it is in memory alone
  bool has_checksums() const;
  // To a file of an earlier program: writes it anew, which takes as much room again meanwhile.
  // Other connections must be closed.
  void add_checksums();
  int64_t integer(const std::string& sql);
  int64_t last_id() const;
  int64_t changes() const;  // rows the last statement inserted, updated or deleted
  sqlite3* handle() const { return db_; }

 private:
  sqlite3* db_ = nullptr;
};

// A prepared statement. Parameters and columns count from 0; bound text and blobs are borrowed
// until the statement is bound anew.
class Statement {
 public:
  Statement(Database& db, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  template <typename... Args>
  Statement& bind(const Args&... args) {  // all parameters; from the first row again
    reset();
    int i = 0;
    (bind_one(i++, args), ...);
    return *this;
  }
  void bind_one(int i, int64_t value);
  void bind_one(int i, double value);
  void bind_one(int i, std::string_view text);
  void bind_one(int i, std::span<const uint8_t> blob);
  void bind_one(int i, std::nullopt_t);
  template <typename T>
  void bind_one(int i, const std::optional<T>& value) {
    value ? bind_one(i, *value) : bind_one(i, std::nullopt);
  }

  bool step();  // false: no more rows
  void run();   // to the end
  // Between the first row and the last a statement holds a snapshot of the database open, with
  // which nothing later can be read or written. step() ends it after the last row, this at once.
  void reset();

  int64_t integer(int column) const;
  double real(int column) const;
  std::string bytes(int column) const;  // of a text or a blob
  bool is_null(int column) const;

 private:
  sqlite3_stmt* statement_ = nullptr;
};

// Takes the write lock at once; rolls back unless committed.
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

}  // namespace ndtrain::ndp::sql
