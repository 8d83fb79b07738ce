// The tables of the label database, and SQL that every kind of database understands: parameters are
// '?', text and blobs are bytes. A kind adds its connection and the ways to write much at once.
#pragma once

#include <array>
#include <functional>
#include <mutex>
#include <variant>

#include "ndp/labels/label_counts.h"
#include "ndp/labels/label_db.h"
#include "ndp/labels/version_order.h"
#include "ndp/sqlite/failure.h"

namespace ndtrain::ndp {

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

// Everything but the calls that take a function throws sql::Failure, and is for inside of these.
class LabelTables {
 public:
  static constexpr int64_t kPage = 20'000;  // photos

  virtual ~LabelTables() = default;

  // `f` in a transaction; what it returns, or why it failed. Thread-safe.
  template <typename F>
  auto reading(F f) {
    return guarded(false, std::move(f));
  }
  template <typename F>
  auto writing(F f) {
    return guarded(true, std::move(f));
  }

  // `f` outside of transactions.
  template <typename F>
  Status outside(F f) {
    const std::lock_guard lock(mutex_);
    try {
      f();
      return {};
    } catch (const sql::Failure& failure) {
      return failure.status;
    }
  }

  // What a kind of database does its own way.
  using RowFn = std::function<void(const SqlRow&)>;
  virtual void begin(bool to_write) = 0;  // one writer at a time
  virtual void commit() = 0;
  virtual void rollback() noexcept = 0;
  // Statements are prepared once each. Within `row` other statements may run.
  virtual void each(const std::string& sql, std::span<const SqlValue> values, const RowFn& row) = 0;
  virtual std::string by_index(const char* name) const = 0;  // after a table's alias
  // A condition: the bytes of the column have those of the next parameter in them.
  virtual std::string contains(const char* column) const = 0;
  // Photos that are to be in a collection; those that were not there are made.
  struct Placing {
    std::vector<int64_t> photos;  // of the places, in order
    std::vector<size_t> places;   // where another photo is, or none
    std::vector<int64_t> moved;   // photos that are to get one of these places, or to lose it
  };
  virtual Placing place_photos(int64_t collection, std::span<const PhotoPlace> places) = 0;
  // Then these places are those photos': at most once in a transaction.
  virtual void put_places(int64_t collection, std::span<const PhotoPlace> places,
                          const Placing& placing) = 0;
  // Rows of "SELECT columns FROM table" for each photo; a condition begins with AND.
  virtual void each_of(std::span<const int64_t> photos, const std::string& columns,
                       const std::string& table, const std::string& condition,
                       const RowFn& row) = 0;
  // Each photo's newest label, if there is one; and all of them, oldest first.
  virtual std::vector<std::optional<StoredLabel>> newest_labels(
      int64_t task, std::span<const int64_t> photos) = 0;
  virtual std::vector<std::vector<StoredLabel>> all_labels(int64_t task,
                                                           std::span<const int64_t> photos) = 0;
  virtual void write(const LabelWrites& writes) = 0;
  // Adds to label_counts; what comes to no labels goes.
  virtual void write_counts(const LabelCountRows& counts) = 0;
  // Outside of transactions: makes the files forget what was deleted.
  virtual void scrub() = 0;
  // Another number when another connection has written meanwhile; nullopt: nobody knows.
  virtual std::optional<int64_t> written_by_others() { return std::nullopt; }
  // Outside of transactions: drops what was replaced from tables and indexes.
  virtual void sweep() = 0;

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

  int64_t task_of(int64_t version);  // kNotFound
  std::vector<VersionInfo> versions_of(int64_t task);
  VersionOrder version_order(int64_t task);
  // Photos by id, no more than a page, with a label of the version, which may not be the current
  // one.
  std::vector<int64_t> labelled_between(int64_t task, int64_t version, int64_t above, int64_t to);
  std::string collected_photos() const;  // FROM these, as p, of the collection that is bound
  bool has_all_photos(int64_t collection);
  void hide_places();  // of all photos in the trash
  // What changes labels or places, with the counts (label_counts.h): `change` puts these photos
  // into collections, takes them out of some, or removes them.
  void write_counted(const LabelWrites& writes);
  void placing_counted(std::vector<int64_t> photos, const std::function<void()>& change);
  bool is_hidden(int64_t photo);

 private:
  // Each (photo, collection) that is, in order.
  std::vector<std::pair<int64_t, int64_t>> collected(std::span<const int64_t> photos);
  void apply(LabelCountChanges changes);

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

  std::mutex mutex_;
};

}  // namespace ndtrain::ndp
