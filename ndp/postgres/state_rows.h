// Files written into the tables of a state (state_schema.h) within one transaction of the caller's,
// and read again there. Nobody has the state meanwhile: it is locked.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "framework/core/fs.h"
#include "framework/core/hash.h"
#include "ndp/postgres/postgres.h"

namespace ndtrain::ndp::postgres {

// By its path below the state.
struct StateFile {
  int64_t bytes = 0;
  Digest digest{};
  bool operator==(const StateFile&) const = default;
};
using StateFiles = std::map<std::string, StateFile>;

// Whether a Tuner has, or had, its state in this database; false also where there are no tables.
// Throws sql::Failure.
bool has_state(Connection& db);

// One thread. All throw sql::Failure; kExists where somebody has, or had, the state.
class StateRows {
 public:
  // Begins the transaction; the tables are there. Who takes the lease waits until it ends.
  explicit StateRows(Connection& db);

  void directory(const std::string& path);  // whose parent is there
  void file(const std::string& path, const FileInfo& info, File& from);
  void file(const std::string& path, const std::string& bytes, int64_t mtime_ns);
  const StateFiles& written() const { return written_; }
  // What the server has of them; `on_file` is called before each.
  StateFiles read_back(const std::function<void(const std::string&)>& on_file);

 private:
  int64_t add(const std::string& path, bool directory, int64_t bytes, int64_t mtime_ns);
  void chunk(int64_t file, int64_t start, std::string_view bytes);

  Connection& db_;
  StateFiles written_;
};

// A small file of a state, as those have left it whose transactions have ended: waits ten seconds
// for one that has not. Nullopt: there is none. Throws sql::Failure.
std::optional<std::string> settled_file(const std::string& url, const std::string& path);

}  // namespace ndtrain::ndp::postgres
