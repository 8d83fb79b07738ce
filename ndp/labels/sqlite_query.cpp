// What can be asked.
#include <functional>

#include "ndp/labels/label_row.h"
#include "ndp/labels/sqlite_labels.h"

namespace ndtrain {
namespace {

// A WHERE clause and the values of its parameters.
class Conditions {
 public:
  template <typename T>
  void add(const char* condition, const T& value) {
    sql_ += condition;
    binds_.push_back([value](sql::Statement& s, int i) { s.bind_one(i, value); });
  }
  template <typename T>
  void add_if(const char* condition, const std::optional<T>& value) {
    if (value) add(condition, *value);
  }
  void add_sources(const std::vector<LabelSource>& sources) {
    if (sources.empty()) return;
    sql_ += " AND l.source IN (0";
    for (const LabelSource source : sources) add(", ?", static_cast<int64_t>(source));
    sql_ += ")";
  }

  const std::string& sql() const { return sql_; }
  int bind(sql::Statement& s, int first) const {
    for (const auto& bind_one : binds_) bind_one(s, first++);
    return first;
  }

 private:
  std::string sql_;
  std::vector<std::function<void(sql::Statement&, int)>> binds_;
};

Conditions conditions_of(const LabelQuery& q) {
  Conditions where;
  where.add_if(" AND l.class = ?", q.class_id);
  where.add_if(" AND l.score >= ?", q.min_score);
  where.add_if(" AND l.score <= ?", q.max_score);
  where.add_sources(q.sources);
  where.add_if(" AND l.time >= ?", q.since);
  where.add_if(" AND l.time <= ?", q.until);
  where.add_if(" AND l.version = ?", q.version);
  where.add_if(" AND l.version <> ?", q.stale_for);
  return where;
}

void check_limit(int64_t limit) {
  if (limit < 1) throw Error("labels: a limit of ", limit, ", at least 1 is needed");
}

using Counts = std::vector<std::pair<std::string, int64_t>>;

}  // namespace

Result<std::vector<int64_t>> SqliteLabels::labelled_by(int64_t version,
                                                       std::span<const int64_t> photos) {
  return guarded([&] {
    std::vector<int64_t> labelled;
    sql::Statement& row = prepared("SELECT 1 FROM labels WHERE version = ? AND photo = ?");
    for (const int64_t photo : photos) {
      if (row.bind(version, photo).step()) labelled.push_back(photo);
    }
    return labelled;
  });
}

Result<std::vector<CollectedPhoto>> SqliteLabels::photos_without(int64_t version,
                                                                 int64_t collection, int64_t after,
                                                                 int64_t limit) {
  check_limit(limit);
  return guarded([&] {
    sql::Statement& row = prepared(
        "SELECT p.photo, ph.sha256, min(p.path) FROM places p JOIN photos ph ON ph.id = p.photo"
        " WHERE p.collection = ? AND p.photo > ? AND NOT EXISTS"
        " (SELECT 1 FROM labels l WHERE l.version = ? AND l.photo = p.photo)"
        " GROUP BY p.photo ORDER BY p.photo LIMIT ?");
    std::vector<CollectedPhoto> photos;
    for (row.bind(collection, after, version, limit); row.step();) {
      photos.push_back({row.integer(0), digest_from(row.bytes(1)), row.bytes(2)});
    }
    return photos;
  });
}

Result<LabelPage> SqliteLabels::query(const LabelQuery& query) {
  check_limit(query.limit);
  return guarded([&] {
    const Conditions where = conditions_of(query);
    // CROSS JOIN and the indexes are said: labels come first, in the order of photos, so that a
    // page costs a page. Left alone, SQLite prefers to walk all paths for each label.
    const std::string from = std::string(" FROM labels l INDEXED BY ") +
                             (query.class_id ? "labels_class" : "labels_current") +
                             " CROSS JOIN places p INDEXED BY places_photo";
    sql::Statement row(db_, "SELECT " + std::string(kLabelColumns) + ", p.path" + from +
                                std::string(kLabelJoins) +
                                " WHERE p.collection = ? AND p.photo = +l.photo AND l.task = ?"
                                " AND l.current = 1 AND l.photo >= ?"
                                " AND (l.photo, p.path) > (?, ?)" +
                                where.sql() + " ORDER BY l.photo, p.path LIMIT ?");
    row.bind(query.collection, query.task, query.after.photo, query.after.photo,
             std::string_view(query.after.path));
    row.bind_one(where.bind(row, 5), query.limit == INT64_MAX ? query.limit : query.limit + 1);
    LabelPage page;
    while (row.step()) {
      if (static_cast<int64_t>(page.rows.size()) == query.limit) {
        page.next = LabelCursor{page.rows.back().photo, page.rows.back().path};
        break;
      }
      page.rows.push_back(label_row(row));
      page.rows.back().path = row.bytes(10);
    }
    return page;
  });
}

Result<std::vector<LabelRow>> SqliteLabels::history(int64_t task, int64_t photo) {
  return guarded([&] {
    sql::Statement row(
        db_, "SELECT " + std::string(kLabelColumns) + " FROM labels l" + std::string(kLabelJoins) +
                 " WHERE l.task = ? AND l.photo = ? ORDER BY l.time DESC, l.id DESC");
    std::vector<LabelRow> rows;
    for (row.bind(task, photo); row.step();) rows.push_back(label_row(row));
    return rows;
  });
}

Result<LabelStats> SqliteLabels::stats(int64_t collection, int64_t task) {
  return guarded([&] {
    const std::string labelled =
        " FROM (SELECT DISTINCT photo FROM places WHERE collection = ?) p"
        " JOIN labels l ON l.task = ? AND l.photo = p.photo AND l.current = 1";
    const auto count = [&](const std::string& sql, const auto&... args) {
      sql::Statement row(db_, sql);
      row.bind(args...).step();
      return row.integer(0);
    };
    const auto counts = [&](const std::string& column, const std::string& join) {
      Counts found;
      sql::Statement row(db_, "SELECT " + column + ", count(*)" + labelled + join +
                                  " GROUP BY 1 ORDER BY 2 DESC, 1");
      for (row.bind(collection, task); row.step();) {
        found.emplace_back(row.bytes(0), row.integer(1));
      }
      return found;
    };
    LabelStats stats;
    stats.photos =
        count("SELECT count(DISTINCT photo) FROM places WHERE collection = ?", collection);
    stats.labelled = count("SELECT count(*)" + labelled, collection, task);
    stats.stale = count("SELECT count(*)" + labelled +
                            " WHERE l.version <> (SELECT id FROM versions WHERE task = ?"
                            " ORDER BY created DESC, id DESC LIMIT 1)",
                        collection, task, task);
    stats.by_class = counts("c.name", " JOIN classes c ON c.task = l.task AND c.id = l.class");
    stats.by_source = counts("l.source", "");
    for (auto& [name, n] : stats.by_source) {
      name = name_of(static_cast<LabelSource>(std::stoll(name)));
    }
    return stats;
  });
}

}  // namespace ndtrain
