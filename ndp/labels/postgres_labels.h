// The label database in a PostgreSQL database of its own: several machines may read, one writes at
// a time (others wait). A call during which the connection is lost fails with kIo and may be made
// again: it then does what it would have done, and nothing twice.
#pragma once

#include "ndp/labels/label_tables.h"
#include "ndp/postgres/postgres.h"

namespace ndtrain::ndp {

class PostgresLabels final : public LabelTables {
 public:
  // "postgresql://…" as libpq takes it. kNotFound with kExisting: it has no tables of ours.
  static Result<std::unique_ptr<LabelDb>> open(const std::string& url, OpenLabelDb mode);

  void begin(bool to_write) override;
  void commit() override;
  void rollback() noexcept override;
  void each(const std::string& sql, std::span<const SqlValue> values, const RowFn& row) override;
  std::string by_index(const char*) const override { return ""; }
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
  void sweep() override;

 private:
  explicit PostgresLabels(const std::string& url);
  void migrate(OpenLabelDb mode);
  void flag(const LabelWrites& writes);
  void insert(const LabelWrites& writes);

  postgres::Connection db_;
};

}  // namespace ndtrain::ndp
