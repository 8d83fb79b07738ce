// Files in a PostgreSQL database: rows of the tables in state_schema.h. Each call is one
// transaction, seen by everybody when it returns; File::sync, sync_directory and make_directories
// wait until the server has on its disk all that was written before.
//
// Over a URL with_term() it writes, each transaction only while the term is the lease's. Where a
// connection is lost that writes, nobody knows what the server has: that is a failed fsync. Over a
// plain URL it reads.
//
// Locks are the server's, between all processes. "a", "/a" and "./a" are one path. Thread-safe;
// files must not outlive it.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "framework/core/fs.h"
#include "ndp/postgres/postgres.h"

namespace ndtrain::ndp::postgres {

class PostgresFs final : public Fs {
 public:
  // The tables must be there: StateLease::look() or take() makes them. kIo.
  static Result<std::unique_ptr<PostgresFs>> open(const std::string& url);

  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override;
  Result<FileInfo> info(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& directory) override;
  Status make_directories(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Result<Space> space(const std::string& path) override;  // kUnsupported: no server says it
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;

 private:
  class OpenFile;
  class Lock;
  struct Entry {
    int64_t id = 0;  // 0: the root
    bool directory = false;
    int64_t size = 0, mtime_ns = 0;
  };
  enum class Sync { kLater, kNow };

  explicit PostgresFs(const std::string& url);
  Status try_sync_directory(const std::string& path) override;

  Status change(const std::string& path, Sync sync, const std::function<void()>& f);
  Status look(const std::string& path, const std::function<void()>& f);
  // All under mutex_; they throw sql::Failure.
  std::optional<Entry> find(Connection& db, const std::string& path);
  void demand_directory(const std::string& path);
  int64_t create(const std::string& path, bool directory);
  void truncate(int64_t id, int64_t size);
  void append(int64_t id, std::string_view bytes);
  void unlink(int64_t id);
  bool has_children(const std::string& path);
  void move(const Entry& entry, const std::string& from, const std::string& to);
  bool try_lock(const std::string& name);
  void unlock(const std::string& name) noexcept;
  void closed(int64_t id) noexcept;  // takes mutex_

  const bool writes_;
  std::mutex mutex_;
  Connection changes_, reads_;
  std::map<int64_t, int> open_;  // handles, by file
  std::set<int64_t> unlinked_;   // of these, without a path
  std::set<std::string> locked_;
};

}  // namespace ndtrain::ndp::postgres
