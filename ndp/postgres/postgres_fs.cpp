#include "ndp/postgres/postgres_fs.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "framework/core/fsync.h"
#include "framework/core/log.h"

namespace ndtrain::ndp::postgres {
namespace {

constexpr size_t kChunk = size_t{1} << 20;
constexpr int64_t kReadAtOnce = int64_t{8} << 20;
constexpr const char* kSettings = "SET client_min_messages = warning; SET jit = off";

// Without what says nothing: the root is "".
std::string plain_path(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, slash);
    if (!name.empty() && name != ".") out.append(out.empty() ? "" : "/").append(name);
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return out;
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

[[noreturn]] void refuse(Code code, const std::string& why) {
  throw sql::Failure{Status(code, why)};
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

class PostgresFs::OpenFile final : public File {
 public:
  OpenFile(PostgresFs& fs, int64_t id, std::string path, bool writes)
      : fs_(fs), id_(id), path_(std::move(path)), writes_(writes) {}
  ~OpenFile() override {
    if (locked_) {
      const std::lock_guard guard(fs_.mutex_);
      fs_.unlock(lock_name());
    }
    fs_.closed(id_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  Result<size_t> read_at(int64_t offset, std::span<std::byte> to) override;
  Status append(std::span<const std::byte> bytes) override {
    return write([&] { fs_.append(id_, text_of(bytes)); });
  }
  Status truncate(int64_t size) override {
    return write([&] { fs_.truncate(id_, size); });
  }
  Result<int64_t> size() override {
    int64_t size = 0;
    const Status s = fs_.look(path_, [&] {
      const Value v[] = {id_};
      size = fs_.reads_.query("SELECT size FROM ndtrain_state.files WHERE id = ?", v).integer(0, 0);
    });
    if (!s.ok()) return s;
    return size;
  }
  Status lock() override {
    const std::lock_guard guard(fs_.mutex_);
    if (locked_) return {};
    if (!fs_.writes_) return {Code::kUnsupported, path_ + ": cannot be locked: it is only read"};
    locked_ = fs_.try_lock(lock_name());
    return locked_ ? Status() : Status(Code::kExists, path_ + ": is in use");
  }

 private:
  std::string lock_name() const { return "file " + std::to_string(id_); }
  Status write(const std::function<void()>& f) {
    if (!writes_) return {Code::kIo, path_ + ": cannot write: it is open for reading"};
    return fs_.change(path_, Sync::kLater, f);
  }
  Status try_sync() override {
    return fs_.change(path_, Sync::kNow, [] {});
  }

  PostgresFs& fs_;
  const int64_t id_;
  const std::string path_;
  const bool writes_;
  bool locked_ = false;
};

Result<size_t> PostgresFs::OpenFile::read_at(int64_t offset, std::span<std::byte> to) {
  if (offset < 0) return Status(Code::kIo, path_ + ": cannot read: a negative offset");
  size_t done = 0;
  const Status s = fs_.look(path_, [&] {
    while (done < to.size()) {
      const int64_t begin = offset + static_cast<int64_t>(done);
      const int64_t end = begin + std::min(kReadAtOnce, static_cast<int64_t>(to.size() - done));
      const Value v[] = {begin, end, begin, id_, end, id_, begin};
      const Answer a = fs_.reads_.query(
          "SELECT substring(bytes FROM (greatest(? - start, 0) + 1)::int"
          " FOR (? - greatest(start, ?))::int) FROM ndtrain_state.chunks"
          " WHERE file = ? AND start < ? AND start >= coalesce((SELECT max(start)"
          " FROM ndtrain_state.chunks WHERE file = ? AND start <= ?), 0) ORDER BY start",
          v);
      const size_t before = done;
      for (int i = 0; i < a.rows(); ++i) {
        const std::string part = a.bytes(i, 0);
        std::ranges::copy(std::as_bytes(std::span(part)), to.begin() + static_cast<int64_t>(done));
        done += part.size();
      }
      if (done == before) break;
    }
  });
  if (!s.ok()) return s;
  return done;
}

class PostgresFs::Lock final : public FileLock {
 public:
  Lock(PostgresFs& fs, std::string name) : fs_(fs), name_(std::move(name)) {}
  ~Lock() override {
    const std::lock_guard guard(fs_.mutex_);
    fs_.unlock(name_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  PostgresFs& fs_;
  const std::string name_;
};

PostgresFs::PostgresFs(const std::string& url)
    : writes_(url.find("ndtrain.term") != std::string::npos),
      changes_(url, kSettings),
      reads_(url, kSettings) {}

Result<std::unique_ptr<PostgresFs>> PostgresFs::open(const std::string& url) {
  try {
    return std::unique_ptr<PostgresFs>(new PostgresFs(url));
  } catch (const sql::Failure& failure) {
    return Status(failure.status.code(), "shared state: " + failure.status.message());
  }
}

Status PostgresFs::change(const std::string& path, Sync sync, const std::function<void()>& f) {
  const std::lock_guard guard(mutex_);
  if (!writes_) return {Code::kUnsupported, path + ": cannot write: this state is only read here"};
  try {
    if (!changes_.connected()) refuse(Code::kIo, "no connection to the PostgreSQL server");
    changes_.execute(sync == Sync::kNow ? "BEGIN; SET LOCAL synchronous_commit = on"
                                        : "BEGIN; SET LOCAL synchronous_commit = off");
    f();
    changes_.commit();
    return {};
  } catch (const sql::Failure& failure) {
    if (!changes_.connected()) fsync_failed(path + ": " + failure.status.message());
    changes_.rollback();
    return {failure.status.code(), path + ": " + failure.status.message()};
  }
}

Status PostgresFs::look(const std::string& path, const std::function<void()>& f) {
  const std::lock_guard guard(mutex_);
  for (int tries = 0;; ++tries) {
    try {
      reads_.start("BEGIN READ ONLY");
      f();
      reads_.rollback();
      return {};
    } catch (const sql::Failure& failure) {
      const bool gone = !reads_.connected();
      reads_.rollback();
      if (gone && tries == 0) continue;
      return {failure.status.code(), path + ": " + failure.status.message()};
    }
  }
}

std::optional<PostgresFs::Entry> PostgresFs::find(Connection& db, const std::string& path) {
  if (path.empty()) return Entry{.directory = true, .mtime_ns = 1};
  const Value v[] = {std::string_view(path)};
  const Answer a =
      db.query("SELECT id, directory, size, mtime FROM ndtrain_state.files WHERE path = ?", v);
  if (a.rows() == 0) return {};
  return Entry{a.integer(0, 0), a.integer(0, 1) != 0, a.integer(0, 2), a.integer(0, 3)};
}

void PostgresFs::demand_directory(const std::string& path) {
  const std::optional<Entry> there = find(changes_, path);
  if (!there || !there->directory) refuse(Code::kNotFound, "there is no directory " + path);
}

int64_t PostgresFs::create(const std::string& path, bool directory) {
  const std::string parent = parent_of(path);
  const Value v[] = {std::string_view(path), std::string_view(parent), int64_t{directory},
                     now_ns()};
  return changes_
      .query(
          "INSERT INTO ndtrain_state.files (path, parent, directory, mtime)"
          " VALUES (?, ?, ?, ?) RETURNING id",
          v)
      .integer(0, 0);
}

void PostgresFs::append(int64_t id, std::string_view bytes) {
  for (size_t at = 0; at < bytes.size(); at += kChunk) {
    const std::string_view part = bytes.substr(at, kChunk);
    const auto n = static_cast<int64_t>(part.size());
    const Value v[] = {n, now_ns(), id, n, part};
    const Answer a = changes_.query(
        "WITH f AS (UPDATE ndtrain_state.files SET size = size + ?, mtime = ? WHERE id = ?"
        " RETURNING id, size) INSERT INTO ndtrain_state.chunks (file, start, bytes)"
        " SELECT id, size - ?, ? FROM f RETURNING 1",
        v);
    if (a.rows() != 1) refuse(Code::kIo, "cannot append: the file is gone");
  }
}

void PostgresFs::truncate(int64_t id, int64_t size) {
  if (size < 0) refuse(Code::kIo, "cannot truncate to a negative size");
  const Value of[] = {id};
  int64_t now =
      changes_.query("SELECT size FROM ndtrain_state.files WHERE id = ?", of).integer(0, 0);
  for (; now < size; now += static_cast<int64_t>(kChunk)) {
    append(id, std::string(std::min(kChunk, static_cast<size_t>(size - now)), '\0'));
  }
  const Value after[] = {id, size};
  (void)changes_.query("DELETE FROM ndtrain_state.chunks WHERE file = ? AND start >= ?", after);
  const Value last[] = {size, id, size};
  (void)changes_.query(
      "UPDATE ndtrain_state.chunks SET bytes = substring(bytes FROM 1 FOR (? - start)::int)"
      " WHERE file = ? AND start + length(bytes) > ?",
      last);
  const Value set[] = {size, now_ns(), id};
  (void)changes_.query("UPDATE ndtrain_state.files SET size = ?, mtime = ? WHERE id = ?", set);
}

// Whoever has it open may read on.
void PostgresFs::unlink(int64_t id) {
  const Value v[] = {id};
  if (!open_.contains(id)) {
    (void)changes_.query("DELETE FROM ndtrain_state.files WHERE id = ?", v);
    return;
  }
  (void)changes_.query("UPDATE ndtrain_state.files SET path = NULL, parent = '/' WHERE id = ?", v);
  unlinked_.insert(id);
}

void PostgresFs::closed(int64_t id) noexcept {
  {
    const std::lock_guard guard(mutex_);
    if (--open_[id] > 0) return;
    open_.erase(id);
    if (unlinked_.erase(id) == 0 || !changes_.connected()) return;
  }
  // What stays is removed when the lease is taken next.
  static_cast<void>(change("", Sync::kLater, [&] {
                      const Value v[] = {id};
                      (void)changes_.query(
                          "DELETE FROM ndtrain_state.files WHERE id = ? AND path IS NULL", v);
                    }).ok());
}

bool PostgresFs::has_children(const std::string& path) {
  const Value v[] = {std::string_view(path)};
  return changes_.query("SELECT 1 FROM ndtrain_state.files WHERE parent = ? LIMIT 1", v).rows() > 0;
}

Result<std::unique_ptr<File>> PostgresFs::open(const std::string& path, Mode mode) {
  const std::string plain = plain_path(path);
  int64_t id = 0;
  bool counted = false;
  const bool reads = mode == Mode::kRead;
  const auto found = [&](const std::optional<Entry>& entry) {
    if (entry && entry->directory) refuse(Code::kUnsupported, "cannot open: not a regular file");
    if (!entry && reads) refuse(Code::kNotFound, "cannot open: there is no such file");
    if (!entry) demand_directory(parent_of(plain));
    id = entry ? entry->id : create(plain, false);
    if (entry && !reads && mode != Mode::kAppend) truncate(id, 0);
    ++open_[id];
    counted = true;
  };
  const Status s = reads ? look(path, [&] { found(find(reads_, plain)); })
                         : change(path, Sync::kLater, [&] { found(find(changes_, plain)); });
  if (!s.ok()) {
    if (counted) closed(id);
    return s;
  }
  return std::unique_ptr<File>(std::make_unique<OpenFile>(*this, id, path, !reads));
}

Result<FileInfo> PostgresFs::info(const std::string& path) {
  std::optional<Entry> entry;
  const Status s = look(path, [&] { entry = find(reads_, plain_path(path)); });
  if (!s.ok()) return s;
  if (!entry) return Status(Code::kNotFound, path + ": there is no such file or directory");
  return FileInfo{.size = entry->size,
                  .mtime_ns = entry->mtime_ns,
                  .inode = static_cast<uint64_t>(entry->id),
                  .is_directory = entry->directory};
}

Result<std::vector<std::string>> PostgresFs::list(const std::string& directory) {
  const std::string plain = plain_path(directory);
  std::vector<std::string> names;
  const Status s = look(directory, [&] {
    const std::optional<Entry> entry = find(reads_, plain);
    if (!entry || !entry->directory) refuse(Code::kNotFound, "there is no such directory");
    const Value v[] = {std::string_view(plain)};
    const Answer a = reads_.query(
        "SELECT path FROM ndtrain_state.files WHERE parent = ? AND path IS NOT NULL ORDER BY path",
        v);
    for (int i = 0; i < a.rows(); ++i) names.push_back(name_of_path(a.bytes(i, 0)));
  });
  if (!s.ok()) return s;
  return names;
}

Status PostgresFs::make_directories(const std::string& path) {
  const std::string plain = plain_path(path);
  std::optional<Entry> entry;
  if (Status s = look(path, [&] { entry = find(reads_, plain); }); !s.ok()) return s;
  if (entry && entry->directory) return {};
  return change(path, Sync::kNow, [&] {
    for (size_t end = 0; end < plain.size(); ++end) {
      end = std::min(plain.find('/', end), plain.size());
      const std::string part = plain.substr(0, end);
      const std::optional<Entry> there = find(changes_, part);
      if (there && !there->directory) {
        refuse(Code::kExists, "cannot create directory: a file has the name " + part);
      }
      if (!there) create(part, true);
    }
  });
}

Status PostgresFs::rename(const std::string& from, const std::string& to) {
  const std::string old_path = plain_path(from), new_path = plain_path(to);
  return change(from + " -> " + to, Sync::kLater, [&] {
    const std::optional<Entry> entry = find(changes_, old_path);
    if (!entry || old_path.empty()) refuse(Code::kNotFound, "cannot rename: it is not there");
    if (old_path == new_path) return;
    if (new_path.empty() || new_path.starts_with(old_path + "/")) {
      refuse(Code::kIo, "cannot rename: a directory cannot be moved into itself");
    }
    demand_directory(parent_of(new_path));
    if (const std::optional<Entry> there = find(changes_, new_path)) {
      if (there->directory != entry->directory) {
        refuse(Code::kExists, "cannot rename: a file and a directory");
      }
      if (there->directory && has_children(new_path)) {
        refuse(Code::kExists, "cannot rename: the directory is not empty");
      }
      unlink(there->id);
    }
    move(*entry, old_path, new_path);
  });
}

void PostgresFs::move(const Entry& entry, const std::string& from, const std::string& to) {
  const std::string parent = parent_of(to);
  const Value self[] = {std::string_view(to), std::string_view(parent), entry.id};
  (void)changes_.query("UPDATE ndtrain_state.files SET path = ?, parent = ? WHERE id = ?", self);
  if (!entry.directory) return;
  const std::string first = from + '/', behind = from + '0';  // what follows '/'
  const auto rest = static_cast<int64_t>(from.size()) + 1;
  const Value below[] = {std::string_view(to),    rest,
                         std::string_view(to),    rest,
                         std::string_view(first), std::string_view(behind)};
  (void)changes_.query(
      "UPDATE ndtrain_state.files SET path = ? || substring(path FROM ?::int),"
      " parent = ? || substring(parent FROM ?::int) WHERE path >= ? AND path < ?",
      below);
}

Status PostgresFs::remove(const std::string& path) {
  const std::string plain = plain_path(path);
  return change(path, Sync::kLater, [&] {
    const std::optional<Entry> entry = find(changes_, plain);
    if (!entry || plain.empty()) refuse(Code::kNotFound, "cannot remove: it is not there");
    if (entry->directory && has_children(plain)) {
      refuse(Code::kExists, "cannot remove: the directory is not empty");
    }
    unlink(entry->id);
  });
}

Result<Space> PostgresFs::space(const std::string& path) {
  Result<FileInfo> there = info(path);
  if (!there.ok()) return there.status();
  return Status(Code::kUnsupported, path + ": a PostgreSQL server does not say what fits its disk");
}

Status PostgresFs::try_sync_directory(const std::string& path) {
  return change(path, Sync::kNow, [&] { demand_directory(plain_path(path)); });
}

// Of this connection, and as long as it is there: the first that writes without it is the last.
bool PostgresFs::try_lock(const std::string& name) {
  if (locked_.contains(name) || !changes_.connected()) return false;
  const Value v[] = {std::string_view(name)};
  try {
    const Answer a = changes_.query(
        "SELECT pg_try_advisory_lock(hashtextextended(encode(?, 'escape'), 1313100878))", v);
    if (a.integer(0, 0) == 0) return false;
  } catch (const sql::Failure& failure) {
    log::warn("shared state: no lock of {}: {}", name, failure.status.message());
    return false;
  }
  locked_.insert(name);
  return true;
}

void PostgresFs::unlock(const std::string& name) noexcept {
  locked_.erase(name);
  if (!changes_.connected()) return;
  const Value v[] = {std::string_view(name)};
  try {
    (void)changes_.query(
        "SELECT pg_advisory_unlock(hashtextextended(encode(?, 'escape'), 1313100878))", v);
  } catch (const sql::Failure& failure) {
    log::warn("shared state: {}", failure.status.message());
  }
}

Result<std::unique_ptr<FileLock>> PostgresFs::lock(const std::string& path) {
  Result<std::unique_ptr<File>> file = open(path, Mode::kAppend);
  if (!file.ok()) return file.status();
  const std::string name = "path " + plain_path(path);
  const std::lock_guard guard(mutex_);
  if (!try_lock(name)) return Status(Code::kExists, path + ": is locked");
  return std::unique_ptr<FileLock>(std::make_unique<Lock>(*this, name));
}

}  // namespace ndtrain::ndp::postgres
