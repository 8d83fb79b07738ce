// The label database in one SQLite file: several processes may read, one writes at a time (others
// wait up to ten seconds).
#pragma once

#include <map>
#include <mutex>

#include "ndp/labels/label_db.h"
#include "ndp/sqlite/sqlite.h"

namespace ndtrain {

class SqliteLabels final : public LabelDb {
 public:
  // `max_pages` 0: as many as the volume takes; else the file never gets larger (4096 bytes each).
  static Result<std::unique_ptr<LabelDb>> open(const std::string& path, int64_t max_pages = 0);

  Result<int64_t> collection(std::string_view name) override;
  Result<int64_t> task(std::string_view name) override;
  Result<std::vector<std::string>> collections() override;
  Result<std::vector<std::string>> tasks() override;
  Result<std::vector<int64_t>> class_ids(int64_t task, std::span<const std::string> names) override;
  Result<std::vector<ClassInfo>> classes(int64_t task) override;
  Result<int64_t> version(int64_t task, const NewVersion& version) override;
  Result<std::vector<VersionInfo>> versions(int64_t task) override;
  Result<std::vector<int64_t>> add_photos(int64_t collection,
                                          std::span<const PhotoPlace> places) override;
  Status remove_paths(int64_t collection, std::span<const std::string> paths) override;
  Result<int64_t> find_photo(int64_t collection, std::string_view path) override;
  Result<PutReport> put_labels(const LabelBatch& batch) override;
  Result<std::vector<int64_t>> labelled_by(int64_t version,
                                           std::span<const int64_t> photos) override;
  Result<std::vector<CollectedPhoto>> photos_without(int64_t version, int64_t collection,
                                                     int64_t after, int64_t limit) override;
  Result<LabelPage> query(const LabelQuery& query) override;
  Result<std::vector<LabelRow>> history(int64_t task, int64_t photo) override;
  Result<LabelStats> stats(int64_t collection, int64_t task) override;

 private:
  explicit SqliteLabels(const std::string& path) : db_(path) {}

  // What `f` returns, or the Status of the SqliteFailure it throws.
  template <typename F>
  auto guarded(F f) -> Result<decltype(f())> {
    const std::lock_guard lock(mutex_);
    const SnapshotEnd end{statements_};
    try {
      return f();
    } catch (const sql::SqliteFailure& failure) {
      return failure.status;
    }
  }

  using Statements = std::map<const char*, std::unique_ptr<sql::Statement>>;
  // No call leaves a statement in the middle of its rows.
  struct SnapshotEnd {
    Statements& statements;
    ~SnapshotEnd() {
      for (auto& [sql, statement] : statements) statement->reset();
    }
  };

  // Prepared once; `sql` must be a literal. Under mutex_.
  sql::Statement& prepared(const char* sql);
  int64_t named(const char* insert, const char* select, std::string_view name);
  Result<std::vector<std::string>> names(const char* select);
  bool says_nothing_new(const LabelBatch& batch, const NewLabel& label);
  bool put_label(const LabelBatch& batch, const NewLabel& label);  // true: it is current

  std::mutex mutex_;
  sql::Database db_;
  Statements statements_;
};

}  // namespace ndtrain
