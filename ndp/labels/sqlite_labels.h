// The label database in one SQLite file: several processes may read, one writes at a time (others
// wait up to ten seconds).
#pragma once

#include <unordered_map>
#include <vector>

#include "ndp/labels/label_tables.h"
#include "ndp/sqlite/sqlite.h"

namespace ndtrain::ndp {

class SqliteLabels final : public LabelTables {
 public:
  // `max_pages` 0: as many as the volume takes; else the file never gets larger (4096 bytes each).
  static Result<std::unique_ptr<LabelDb>> open(const std::string& path, int64_t max_pages = 0);

  void begin(bool to_write) override;
  void commit() override;
  void rollback() noexcept override;
  void each(const std::string& sql, std::span<const SqlValue> values, const RowFn& row) override;
  std::string by_index(const char* name) const override;
  std::string contains(const char* column) const override;
  Placing place_photos(int64_t collection, std::span<const PhotoPlace> places) override;
  void put_places(int64_t collection, std::span<const PhotoPlace> places,
                  const Placing& placing) override;
  void each_of(std::span<const int64_t> photos, const std::string& columns,
               const std::string& table, const std::string& condition, const RowFn& row) override;
  std::vector<std::optional<StoredLabel>> newest_labels(int64_t task,
                                                        std::span<const int64_t> photos) override;
  std::vector<std::vector<StoredLabel>> all_labels(int64_t task,
                                                   std::span<const int64_t> photos) override;
  void write(const LabelWrites& writes) override;
  void write_counts(const LabelCountRows& counts) override;
  void scrub() override;
  std::optional<int64_t> written_by_others() override;
  void sweep() override {}  // SQLite has dropped it with each transaction

 private:
  struct Prepared {
    sql::Statement statement;
    bool used = false;  // it is in used_
  };

  explicit SqliteLabels(const std::string& path) : db_(path) {}

  // Prepared once; reset by the next reset_statements().
  sql::Statement& prepared(const std::string& sql);
  // No call leaves a statement in the middle of its rows.
  void reset_statements();

  sql::Database db_;
  std::unordered_map<std::string, std::unique_ptr<Prepared>> statements_;
  std::vector<Prepared*> used_;  // since they were last reset
};

}  // namespace ndtrain::ndp
