// The label database as SQL that every kind of database understands: parameters are '?', text and
// blobs are bytes. A kind adds its connection and the ways to write much at once.
#pragma once

#include <array>
#include <functional>
#include <mutex>
#include <variant>

#include "ndp/labels/label_db.h"
#include "ndp/labels/version_order.h"
#include "ndp/sqlite/failure.h"

namespace ndtrain {

using SqlValue =
    std::variant<std::monostate, int64_t, double, std::string_view, std::span<const uint8_t>>;

class SqlRow {
 public:
  virtual int64_t integer(int column) const = 0;
  virtual double real(int column) const = 0;
  virtual std::string bytes(int column) const = 0;
  virtual bool is_null(int column) const = 0;

 protected:
  ~SqlRow() = default;
};

class SqlLabels : public LabelDb {
 public:
  Result<int64_t> collection(std::string_view name) override;
  Result<int64_t> task(std::string_view name) override;
  Result<std::vector<std::string>> collections() override;
  Result<std::vector<std::string>> tasks() override;
  Result<int64_t> store(std::string_view name) override;
  Result<std::vector<std::string>> stores() override;
  Result<std::vector<int64_t>> class_ids(int64_t task, std::span<const std::string> names) override;
  Result<std::vector<ClassInfo>> classes(int64_t task) override;
  Result<int64_t> version(int64_t task, const NewVersion& version) override;
  Result<std::vector<VersionInfo>> versions(int64_t task) override;
  Status put_in_force(int64_t task, int64_t version) override;
  Result<std::optional<int64_t>> in_force(int64_t task) override;
  Result<UndoReport> undo(int64_t version, int64_t time) override;
  Result<UndoReport> preview_undo(int64_t version) override;
  Result<LabelDiff> diff(int64_t collection, int64_t from, int64_t to) override;
  Result<std::vector<ChangedPhoto>> changed_photos(const DiffQuery& query) override;
  Result<std::vector<int64_t>> add_photos(int64_t collection,
                                          std::span<const PhotoPlace> places) override;
  Status remove_paths(int64_t collection, std::span<const std::string> paths) override;
  Result<int64_t> find_photo(int64_t collection, std::string_view path) override;
  Result<Digest> digest_of(int64_t photo) override;
  Result<std::vector<int64_t>> photos_with(std::span<const Digest> digests) override;
  Result<std::vector<std::vector<std::string>>> paths_of(std::span<const Digest> digests) override;
  Result<int64_t> remove_photos(std::span<const int64_t> photos) override;
  Result<PutReport> put_labels(const LabelBatch& batch) override;
  Result<std::vector<int64_t>> labelled_by(int64_t version,
                                           std::span<const int64_t> photos) override;
  Status settle() override;
  Result<LabelPage> query(const LabelQuery& query) override;
  Result<std::vector<LabelRow>> history(int64_t task, int64_t photo) override;
  Result<LabelStats> stats(int64_t collection, int64_t task) override;
  Result<std::vector<ReviewPhoto>> review(int64_t collection, int64_t task, int64_t count,
                                          uint64_t seed) override;
  Result<FieldAccuracy> accuracy(int64_t collection, int64_t version) override;

 protected:
  // What a kind of database does its own way. Any of these throws sql::Failure.
  using RowFn = std::function<void(const SqlRow&)>;
  virtual void begin(bool to_write) = 0;  // one writer at a time
  virtual void commit() = 0;
  virtual void rollback() noexcept = 0;
  // Statements are prepared once each. Within `row` other statements may run.
  virtual void each(const std::string& sql, std::span<const SqlValue> values, const RowFn& row) = 0;
  virtual std::string by_index(const char* name) const = 0;  // after a table's alias
  virtual std::vector<int64_t> place_photos(int64_t collection,
                                            std::span<const PhotoPlace> places) = 0;
  // Each photo's newest label, if there is one; and all of them, oldest first.
  virtual std::vector<std::optional<HeldLabel>> newest_labels(int64_t task,
                                                              std::span<const int64_t> photos) = 0;
  virtual std::vector<std::vector<HeldLabel>> all_labels(int64_t task,
                                                         std::span<const int64_t> photos) = 0;
  virtual void write(const LabelWrites& writes) = 0;
  // Outside of transactions: makes the files forget what was deleted.
  virtual void scrub() = 0;
  // Outside of transactions: drops what was replaced from tables and indexes.
  virtual void sweep() = 0;

 private:
  static constexpr int64_t kPage = 20'000;  // photos

  template <typename F>
  auto guarded(bool to_write, F f) -> Result<decltype(f())> {
    const std::lock_guard lock(mutex_);
    try {
      begin(to_write);
      auto result = f();
      commit();
      return result;
    } catch (const sql::Failure& failure) {
      rollback();
      return failure.status;
    } catch (...) {
      rollback();
      throw;
    }
  }
  template <typename F>
  auto reading(F f) {
    return guarded(false, std::move(f));
  }
  template <typename F>
  auto writing(F f) {
    return guarded(true, std::move(f));
  }

  template <typename T>
  static SqlValue value_of(const T& v) {
    if constexpr (std::is_same_v<T, std::string>) {
      return std::string_view(v);
    } else if constexpr (std::is_same_v<T, Digest>) {
      return std::span<const uint8_t>(v);
    } else if constexpr (std::is_same_v<T, std::optional<int64_t>> ||
                         std::is_same_v<T, std::optional<double>>) {
      return v ? SqlValue(*v) : SqlValue();
    } else {
      return v;
    }
  }
  template <typename... Values>
  void rows(const RowFn& row, const std::string& sql, const Values&... values) {
    const std::array<SqlValue, sizeof...(Values)> array{value_of(values)...};
    each(sql, array, row);
  }
  template <typename... Values>
  void run(const std::string& sql, const Values&... values) {
    rows([](const SqlRow&) {}, sql, values...);
  }
  // The first column of the first row, unless that is NULL or there is none.
  template <typename... Values>
  std::optional<int64_t> integer(const std::string& sql, const Values&... values) {
    std::optional<int64_t> found;
    rows(
        [&](const SqlRow& r) {
          if (!found && !r.is_null(0)) found = r.integer(0);
        },
        sql, values...);
    return found;
  }

  Result<int64_t> named(const char* table, std::string_view name);
  Result<std::vector<std::string>> names(const char* table);
  int64_t task_of(int64_t version);      // throws sql::Failure, kNotFound
  std::string collected_photos() const;  // FROM these, as p, of the collection that is bound
  bool has_all_photos(int64_t collection);
  std::vector<VersionInfo> versions_of(int64_t task);
  VersionOrder version_order(int64_t task);
  // Photos by id, no more than a page: with a label of the version, which may not be the current
  // one; with one that is.
  std::vector<int64_t> labelled_between(int64_t task, int64_t version, int64_t above, int64_t to);
  std::vector<int64_t> current_by(int64_t task, int64_t version, int64_t above);
  // Of `photos`, rising, all with a label of the version, and others between them perhaps.
  std::vector<int64_t> labelled_about(int64_t task, int64_t version,
                                      std::span<const int64_t> photos);
  // What is in force once the version is not.
  std::optional<int64_t> in_force_without(int64_t task, int64_t version);
  // Makes each photo's best label the current one. How many of the photos have one.
  int64_t choose_current(int64_t task, std::span<const int64_t> photos, const VersionOrder& order);
  // Once one version has risen above all others, in another's place.
  void judge_again(int64_t task, int64_t risen, std::optional<int64_t> fallen);
  std::vector<LabelRow> rows_by(const LabelQuery& query, const std::string& index,
                                const std::string& which);
  std::vector<LabelRow> stale_rows(const LabelQuery& query);

  std::mutex mutex_;
};

}  // namespace ndtrain
