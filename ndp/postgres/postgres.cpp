#include "ndp/postgres/postgres.h"

#include <libpq-fe.h>

#include <algorithm>
#include <bit>

#include "ndp/postgres/lease_lost.h"

namespace ndtrain::ndp::postgres {
namespace {

// From PostgreSQL's catalogue, where they never change.
enum Type : Oid {
  kBool = 16,
  kBytea = 17,
  kInt8 = 20,
  kInt2 = 21,
  kInt4 = 23,
  kFloat8 = 701,
  kInt8Array = 1016
};

template <typename T>
void put_big_endian(std::string& to, T value) {
  for (int shift = 8 * (sizeof(T) - 1); shift >= 0; shift -= 8) {
    to += static_cast<char>(static_cast<std::make_unsigned_t<T>>(value) >> shift);
  }
}

int64_t big_endian(const char* bytes, int n) {
  auto value = static_cast<int64_t>(static_cast<int8_t>(bytes[0]));
  for (int i = 1; i < n; ++i) value = (value << 8) | static_cast<uint8_t>(bytes[i]);
  return value;
}

// A parameter as libpq takes it.
struct Parameter {
  Oid type = 0;
  bool null = false;
  std::string data;
};

struct ToParameter {
  Parameter operator()(std::monostate) const { return {.null = true}; }
  Parameter operator()(int64_t v) const {
    Parameter p{.type = kInt8};
    put_big_endian(p.data, v);
    return p;
  }
  Parameter operator()(double v) const {
    Parameter p{.type = kFloat8};
    put_big_endian(p.data, std::bit_cast<int64_t>(v));
    return p;
  }
  Parameter operator()(std::string_view v) const {
    return {.type = kBytea, .data = std::string(v)};
  }
  Parameter operator()(std::span<const uint8_t> v) const {
    return {.type = kBytea, .data = std::string(v.begin(), v.end())};
  }
  Parameter operator()(std::span<const int64_t> v) const {
    Parameter p{.type = kInt8Array};
    // Dimensions, no NULLs, type; the one dimension's length and first index.
    for (const int32_t i : {1, 0, static_cast<int>(kInt8), static_cast<int>(v.size()), 1}) {
      put_big_endian(p.data, i);
    }
    for (const int64_t i : v) {
      put_big_endian(p.data, int32_t{8});
      put_big_endian(p.data, i);
    }
    return p;
  }
};

// With $1, $2, … for '?'.
std::string numbered(const std::string& sql) {
  std::string out;
  int n = 0;
  for (const char c : sql) {
    c == '?' ? out += "$" + std::to_string(++n) : out += c;
  }
  return out;
}

constexpr std::string_view kLeaseLost = "NDT01";  // a state of ours, as no server has

// The row stays locked until the COMMIT that comes with it, so that a takeover waits for no client.
constexpr const char* kCommitOfTerm = R"sql(
DO $$ BEGIN
  IF current_setting('transaction_read_only')::boolean THEN RETURN; END IF;
  PERFORM 1 FROM ndtrain_state.lease WHERE term = current_setting('ndtrain.term')::bigint FOR SHARE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'term % is over: another has taken the state over',
      current_setting('ndtrain.term') USING ERRCODE = 'NDT01';
  END IF;
END $$; COMMIT)sql";

Code code_of(const char* state) {
  const std::string_view s = state == nullptr ? "" : state;
  if (s == "53100") return Code::kNoSpace;
  if (s.starts_with("23")) return Code::kNotFound;  // a constraint
  if (s.starts_with("54")) return Code::kTooLarge;
  return Code::kIo;
}

std::string without_newline(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

Answer::~Answer() { PQclear(result_); }
int Answer::rows() const { return PQntuples(result_); }
bool Answer::is_null(int row, int column) const { return PQgetisnull(result_, row, column) != 0; }

int64_t Answer::integer(int row, int column) const {
  return is_null(row, column)
             ? 0
             : big_endian(PQgetvalue(result_, row, column), PQgetlength(result_, row, column));
}

double Answer::real(int row, int column) const {
  return std::bit_cast<double>(integer(row, column));
}

std::string Answer::bytes(int row, int column) const {
  return {PQgetvalue(result_, row, column), static_cast<size_t>(PQgetlength(result_, row, column))};
}

CopyRows::CopyRows(int columns) : columns_(columns) {
  data_.assign("PGCOPY\n\377\r\n\0", 11);
  data_.append(8, '\0');  // flags, no extension
}

void CopyRows::begin_row() { put_big_endian(data_, static_cast<int16_t>(columns_)); }

void CopyRows::integer(int64_t value) {
  put_big_endian(data_, int32_t{8});
  put_big_endian(data_, value);
}

void CopyRows::small_integer(int16_t value) {
  put_big_endian(data_, int32_t{2});
  put_big_endian(data_, value);
}

void CopyRows::real(double value) { integer(std::bit_cast<int64_t>(value)); }

void CopyRows::bytes(std::string_view value) {
  put_big_endian(data_, static_cast<int32_t>(value.size()));
  data_ += value;
}

void CopyRows::null() { put_big_endian(data_, int32_t{-1}); }

std::string CopyRows::finish() {
  put_big_endian(data_, int16_t{-1});
  return std::move(data_);
}

std::string name_of_term(int64_t term) { return "ndtrain_term_" + std::to_string(term); }

std::string without_password(const std::string& url) {
  std::string shown = url;
  const size_t scheme = shown.find("://");
  if (scheme == std::string::npos) return shown;
  const size_t begin = scheme + 3;
  const size_t end = std::min(shown.find_first_of("/?", begin), shown.size());
  const size_t at = shown.substr(0, end).rfind('@');
  const size_t colon = shown.find(':', begin);
  if (at != std::string::npos && at > begin && colon < at) shown.erase(colon, at - colon);
  for (const std::string_view key :
       {"?password=", "&password=", "?sslpassword=", "&sslpassword="}) {
    const size_t found = shown.find(key);
    if (found == std::string::npos) continue;
    const size_t next = std::min(shown.find('&', found + 1), shown.size());
    // What follows goes on with the sign before it.
    if (key.front() == '?' && next < shown.size()) {
      shown.erase(found + 1, next - found);
    } else {
      shown.erase(found, next - found);
    }
  }
  return shown;
}

std::string with_term(const std::string& url, int64_t term) {
  if (url.find("options=") != std::string::npos) {
    throw sql::Failure{Status(Code::kUnsupported,
                              "the URL of a shared state has options=, which ndtrain sets itself; "
                              "set them for the user instead: ALTER ROLE … SET …")};
  }
  return url + (url.find('?') == std::string::npos ? "?" : "&") + "options=-c%20ndtrain.term%3D" +
         std::to_string(term) + "&application_name=" + name_of_term(term);
}

Connection::Connection(std::string url, std::string set_up)
    : url_(std::move(url)), set_up_(std::move(set_up)) {
  connect();
}

Connection::~Connection() { disconnect(); }

void Connection::connect() {
  disconnect();
  // The URL comes last but two: what it says of time-outs counts. A peer that is silent for so long
  // is gone.
  const char* names[] = {"connect_timeout", "tcp_user_timeout",          "keepalives_idle",
                         "dbname",          "fallback_application_name", nullptr};
  const char* values[] = {"10", "30000", "20", url_.c_str(), "ndtrain", nullptr};
  connection_ = PQconnectdbParams(names, values, /*expand_dbname=*/1);
  if (PQstatus(connection_) != CONNECTION_OK) fail(nullptr);
  PQsetNoticeProcessor(
      connection_, [](void*, const char*) {}, nullptr);
  execute(set_up_);
}

void Connection::disconnect() {
  PQfinish(connection_);
  connection_ = nullptr;
  statements_.clear();
}

// What libpq says names hosts and databases, never passwords.
void Connection::fail(const pg_result* result) {
  const char* state = result != nullptr ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : nullptr;
  const char* text =
      result != nullptr ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : nullptr;
  // Without a code it is libpq that complains; 57P: the server is going away.
  const bool gone = PQstatus(connection_) != CONNECTION_OK || state == nullptr ||
                    std::string_view(state).starts_with("57P");
  std::string message = without_newline(text != nullptr ? text : PQerrorMessage(connection_));
  if (gone) {
    message = "no connection to the PostgreSQL server: " + message +
              "; the next call tries to connect anew";
    disconnect();
  }
  if (state != nullptr && state == kLeaseLost) lease_lost(message);
  throw sql::Failure{Status(code_of(state), message)};
}

pg_result* Connection::checked(pg_result* result) {
  const ExecStatusType status = PQresultStatus(result);
  if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_COPY_IN) {
    return result;
  }
  const Answer owner(result);
  fail(result);
}

void Connection::start(const std::string& sql) {
  if (connection_ == nullptr) connect();
  try {
    execute(sql);
  } catch (const sql::Failure&) {
    if (connection_ != nullptr) throw;
    connect();  // it broke while nobody was using it
    execute(sql);
  }
}

void Connection::execute(const std::string& sql) {
  const Answer done(checked(PQexec(connection_, sql.c_str())));
}

const std::string& Connection::prepare(const std::string& sql, std::span<const Value> values) {
  std::string key = sql + ' ';
  for (const Value& v : values) key += static_cast<char>('0' + v.index());
  auto it = statements_.find(key);
  if (it != statements_.end()) return it->second;
  const std::string name = "s" + std::to_string(statements_.size());
  std::vector<Oid> types;
  for (const Value& v : values) types.push_back(std::visit(ToParameter(), v).type);
  const Answer done(checked(PQprepare(connection_, name.c_str(), numbered(sql).c_str(),
                                      static_cast<int>(types.size()), types.data())));
  return statements_.emplace(std::move(key), name).first->second;
}

Answer Connection::query(const std::string& sql, std::span<const Value> values) {
  const std::string& name = prepare(sql, values);
  std::vector<Parameter> parameters;
  for (const Value& v : values) parameters.push_back(std::visit(ToParameter(), v));
  std::vector<const char*> data;
  std::vector<int> lengths;
  const std::vector<int> binary(values.size(), 1);
  for (const Parameter& p : parameters) {
    data.push_back(p.null ? nullptr : p.data.data());
    lengths.push_back(static_cast<int>(p.data.size()));
  }
  return Answer(checked(PQexecPrepared(connection_, name.c_str(), static_cast<int>(values.size()),
                                       data.data(), lengths.data(), binary.data(), 1)));
}

void Connection::copy(const std::string& sql, const std::string& rows) {
  execute(sql + " FROM STDIN WITH (FORMAT binary)");
  constexpr size_t kAtOnce = size_t{1} << 20;
  for (size_t at = 0; at < rows.size(); at += kAtOnce) {
    const auto n = static_cast<int>(std::min(kAtOnce, rows.size() - at));
    if (PQputCopyData(connection_, rows.data() + at, n) != 1) fail(nullptr);
  }
  if (PQputCopyEnd(connection_, nullptr) != 1) fail(nullptr);
  const Answer done(checked(PQgetResult(connection_)));
  while (pg_result* more = PQgetResult(connection_)) const Answer last(more);
}

void Connection::commit() {
  const bool of_term = url_.find("ndtrain.term") != std::string::npos;
  execute(of_term ? kCommitOfTerm : "COMMIT");
}

void Connection::rollback() noexcept {
  if (connection_ == nullptr) return;
  if (PQtransactionStatus(connection_) == PQTRANS_IDLE) return;
  try {
    // In the middle of a COPY only a new connection is in a known state.
    if (PQtransactionStatus(connection_) == PQTRANS_ACTIVE) return disconnect();
    execute("ROLLBACK");
  } catch (const sql::Failure&) {
    disconnect();
  }
}

}  // namespace ndtrain::ndp::postgres
