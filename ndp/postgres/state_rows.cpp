#include "ndp/postgres/state_rows.h"

#include <algorithm>
#include <span>
#include <vector>

namespace ndtrain::ndp::postgres {
namespace {

constexpr size_t kRowChunk = size_t{1} << 20;
constexpr const char* kQuietReader = "SET client_min_messages = warning; SET jit = off";

bool lacks_state_tables(Connection& db) {
  return db.query("SELECT to_regclass('ndtrain_state.lease')", {}).is_null(0, 0);
}

bool has_been_used(Connection& db) {
  return db.query("SELECT 1 FROM ndtrain_state.lease WHERE term > 0", {}).rows() > 0 ||
         db.query("SELECT 1 FROM ndtrain_state.files LIMIT 1", {}).rows() > 0;
}

}  // namespace

bool has_state(Connection& db) { return !lacks_state_tables(db) && has_been_used(db); }

StateRows::StateRows(Connection& db) : db_(db) {
  db_.start(
      "BEGIN; SET LOCAL synchronous_commit = on; SELECT 1 FROM ndtrain_state.lease FOR UPDATE");
  if (!has_been_used(db_)) return;
  db_.rollback();
  throw sql::Failure{Status(Code::kExists, "a Tuner has its state in this database")};
}

int64_t StateRows::add(const std::string& path, bool directory, int64_t bytes, int64_t mtime_ns) {
  const std::string parent = parent_of(path);
  const Value v[] = {std::string_view(path), std::string_view(parent), int64_t{directory}, bytes,
                     mtime_ns};
  return db_
      .query(
          "INSERT INTO ndtrain_state.files (path, parent, directory, size, mtime)"
          " VALUES (?, ?, ?, ?, ?) RETURNING id",
          v)
      .integer(0, 0);
}

void StateRows::chunk(int64_t file, int64_t start, std::string_view bytes) {
  CopyRows row(3);
  row.begin_row();
  row.integer(file);
  row.integer(start);
  row.bytes(bytes);
  db_.copy("COPY ndtrain_state.chunks (file, start, bytes)", row.finish());
}

void StateRows::directory(const std::string& path) { add(path, true, 0, 1); }

void StateRows::file(const std::string& path, const FileInfo& info, File& from) {
  const int64_t id = add(path, false, info.size, info.mtime_ns);
  Sha256 hash;
  std::string part(kRowChunk, '\0');
  int64_t at = 0;
  while (at < info.size) {
    const auto n = std::min(static_cast<size_t>(info.size - at), part.size());
    const Result<size_t> got = from.read_at(at, std::as_writable_bytes(std::span(part).first(n)));
    if (!got.ok()) throw sql::Failure{got.status()};
    if (*got != n) throw sql::Failure{Status(Code::kIo, path + ": has become shorter")};
    hash.update(part.data(), n);
    chunk(id, at, std::string_view(part).substr(0, n));
    at += static_cast<int64_t>(n);
  }
  written_[path] = {.bytes = info.size, .digest = hash.finish()};
}

void StateRows::file(const std::string& path, const std::string& bytes, int64_t mtime_ns) {
  const auto size = static_cast<int64_t>(bytes.size());
  const int64_t id = add(path, false, size, mtime_ns);
  chunk(id, 0, bytes);
  written_[path] = {.bytes = size, .digest = sha256(bytes)};
}

StateFiles StateRows::read_back(const std::function<void(const std::string&)>& on_file) {
  StateFiles files;
  const Answer all = db_.query(
      "SELECT path, id, size FROM ndtrain_state.files WHERE directory = 0 ORDER BY path", {});
  for (int i = 0; i < all.rows(); ++i) {
    const std::string path = all.bytes(i, 0);
    on_file(path);
    Sha256 hash;
    int64_t bytes = 0;
    while (true) {
      const Value at[] = {all.integer(i, 1), bytes};
      const Answer part =
          db_.query("SELECT bytes FROM ndtrain_state.chunks WHERE file = ? AND start = ?", at);
      const std::string text = part.rows() == 0 ? "" : part.bytes(0, 0);
      if (text.empty()) break;
      hash.update(text);
      bytes += static_cast<int64_t>(text.size());
    }
    // As long as its row says, too: that is what a Tuner goes by.
    files[path] = {.bytes = bytes == all.integer(i, 2) ? bytes : -1, .digest = hash.finish()};
  }
  return files;
}

std::optional<std::string> settled_file(const std::string& url, const std::string& path) {
  Connection db(url, kQuietReader);
  if (lacks_state_tables(db)) return {};
  db.execute("BEGIN; SET LOCAL lock_timeout = '10s'; SELECT 1 FROM ndtrain_state.lease FOR SHARE");
  const Value v[] = {std::string_view(path)};
  const Answer a = db.query(
      "SELECT bytes FROM ndtrain_state.files JOIN ndtrain_state.chunks ON file = id"
      " WHERE path = ? AND start = 0",
      v);
  std::optional<std::string> bytes;
  if (a.rows() > 0) bytes = a.bytes(0, 0);
  db.rollback();
  return bytes;
}

}  // namespace ndtrain::ndp::postgres
