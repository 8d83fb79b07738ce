// As much of PostgreSQL as our databases need. What goes wrong is thrown as sql::Failure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ndp/sqlite/failure.h"

struct pg_conn;
struct pg_result;

namespace ndtrain::ndp::postgres {

// bigint, double precision, bytea (for text and blobs), bigint[].
using Value = std::variant<std::monostate, int64_t, double, std::string_view,
                           std::span<const uint8_t>, std::span<const int64_t>>;

// All rows of an answer.
class Answer {
 public:
  explicit Answer(pg_result* result) : result_(result) {}
  ~Answer();
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  int rows() const;
  int64_t integer(int row, int column) const;  // of any integer type or a boolean
  double real(int row, int column) const;
  std::string bytes(int row, int column) const;
  bool is_null(int row, int column) const;

 private:
  pg_result* result_;
};

// Rows in the binary form of COPY.
class CopyRows {
 public:
  explicit CopyRows(int columns);

  void begin_row();
  void integer(int64_t value);
  void small_integer(int16_t value);  // of a SMALLINT
  void real(double value);
  void bytes(std::string_view value);
  void null();
  std::string finish();  // the whole, for Connection::copy

 private:
  int columns_;
  std::string data_;
};

// Of a URL "postgresql://…": one whose connections write for the holder of the lease's term
// (state_lease.h) and no longer. Throws sql::Failure where the URL has options of its own.
std::string with_term(const std::string& url, int64_t term);
// For people: without what it has of a password.
std::string without_password(const std::string& url);
// That name, by which who takes over finds connections of earlier terms.
std::string name_of_term(int64_t term);

// A connection; one thread at a time. When the server goes away the call that notices fails, and
// the next start() connects anew.
class Connection {
 public:
  // Connects. `set_up` is executed after every connecting.
  Connection(std::string url, std::string set_up);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Executes `sql`, the beginning of a transaction, over a new connection if the old one is gone.
  void start(const std::string& sql);
  void execute(const std::string& sql);  // never with text from outside
  // Parameters are '?', which stands for nothing else. Prepared once.
  Answer query(const std::string& sql, std::span<const Value> values);
  void copy(const std::string& sql, const std::string& rows);
  // Ends a transaction that start() began. Of a URL with_term(): in the same step as the term is
  // compared, so that no takeover comes between; where another has it, lease_lost() is called.
  void commit();
  bool connected() const { return connection_ != nullptr; }
  void rollback() noexcept;

 private:
  void connect();
  void disconnect();
  const std::string& prepare(const std::string& sql, std::span<const Value> values);
  pg_result* checked(pg_result* result);
  [[noreturn]] void fail(const pg_result* result);

  std::string url_, set_up_;
  pg_conn* connection_ = nullptr;
  std::unordered_map<std::string, std::string> statements_;  // their names, by text and types
};

}  // namespace ndtrain::ndp::postgres
