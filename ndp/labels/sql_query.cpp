// What can be asked.
#include <algorithm>
#include <functional>

#include "ndp/labels/label_row.h"
#include "ndp/labels/sql_labels.h"

namespace ndtrain::ndp {
namespace {

// A WHERE clause and the values of its parameters.
class Conditions {
 public:
  void add(const std::string& condition, SqlValue value) {
    sql_ += condition;
    values_.push_back(value);
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
  const std::vector<SqlValue>& values() const { return values_; }

 private:
  std::string sql_;
  std::vector<SqlValue> values_;
};

Conditions conditions_of(const LabelTables& db, const LabelQuery& q) {
  Conditions where;
  where.add_if(" AND l.photo = ?", q.photo);
  if (!q.path.empty()) where.add(" AND " + db.contains("p.path"), std::string_view(q.path));
  where.add_if(" AND l.class = ?", q.class_id);
  where.add_if(" AND l.score >= ?", q.min_score);
  where.add_if(" AND l.score <= ?", q.max_score);
  where.add_sources(q.sources);
  where.add_if(" AND l.time >= ?", q.since);
  where.add_if(" AND l.time <= ?", q.until);
  where.add_if(" AND l.version = ?", q.version);
  where.add_if(" AND l.store = ?", q.store);
  return where;
}

bool asks_for_models(const LabelQuery& q) {
  return q.sources.empty() || std::ranges::count(q.sources, LabelSource::kModel) > 0;
}

void check_limit(int64_t limit) {
  if (limit < 1) throw Error("labels: a limit of ", limit, ", at least 1 is needed");
}

using Counts = std::vector<std::pair<std::string, int64_t>>;

std::vector<int64_t> labelled_about(LabelTables& db, int64_t task, int64_t version,
                                    std::span<const int64_t> photos) {
  constexpr int64_t kSparse = 8;
  std::vector<int64_t> labelled;
  const auto n = static_cast<int64_t>(photos.size());
  if (photos.empty() || (photos.back() - photos.front()) / n >= kSparse) {
    const auto held = db.all_labels(task, photos);
    for (size_t p = 0; p < photos.size(); ++p) {
      if (std::ranges::count(held[p], version, &StoredLabel::version) > 0) {
        labelled.push_back(photos[p]);
      }
    }
    return labelled;
  }
  // One walk over all labels is cheaper than a search for each photo.
  for (int64_t above = photos.front() - 1, found = LabelTables::kPage;
       found == LabelTables::kPage;) {
    const auto page = db.labelled_between(task, version, above, photos.back());
    labelled.insert(labelled.end(), page.begin(), page.end());
    found = static_cast<int64_t>(page.size());
    if (found > 0) above = page.back();
  }
  return labelled;
}

std::vector<LabelRow> rows_by(LabelTables& db, const LabelQuery& q, const std::string& index,
                              const std::string& which) {
  const Conditions where = conditions_of(db, q);
  std::vector<SqlValue> values{q.collection, q.task, q.after.photo, q.after.photo,
                               std::string_view(q.after.path)};
  values.insert(values.end(), where.values().begin(), where.values().end());
  values.emplace_back(q.limit == INT64_MAX ? q.limit : q.limit + 1);
  std::vector<LabelRow> found;
  // CROSS JOIN and the indexes are said: labels come first, in the order of photos, so that a page
  // costs a page. Left alone, SQLite prefers to walk all paths for each label.
  db.each("SELECT " + std::string(kLabelColumns) + ", p.path FROM labels l" + index +
              " CROSS JOIN places p" + db.by_index("places_photo") + std::string(kLabelJoins) +
              " WHERE p.collection = ? AND p.photo = +l.photo AND l.task = ? AND l.current = 1" +
              which + " AND l.photo >= ? AND (l.photo, p.path) > (?, ?)" + where.sql() +
              " ORDER BY l.photo, p.path LIMIT ?",
          values, [&](const SqlRow& r) {
            found.push_back(label_row(r));
            found.back().path = r.bytes(kLabelColumnCount);
          });
  return found;
}

// A page of each version that is not in force, found by the index, and of these the first rows.
std::vector<LabelRow> stale_rows(LabelTables& db, const LabelQuery& q) {
  std::vector<LabelRow> found;
  const auto in_force = db.integer("SELECT in_force FROM tasks WHERE id = ?", q.task);
  if (!in_force || !asks_for_models(q)) return found;
  LabelQuery of_version = q;
  for (const VersionInfo& v : db.versions_of(q.task)) {
    if (v.id == *in_force || v.withdrawn || q.version.value_or(v.id) != v.id) continue;
    of_version.version = v.id;
    const auto page = rows_by(db, of_version, db.by_index("labels_version"), "");
    found.insert(found.end(), page.begin(), page.end());
  }
  std::ranges::sort(found, {}, [](const LabelRow& r) { return std::tie(r.photo, r.path); });
  return found;
}

}  // namespace

Result<std::vector<int64_t>> SqlLabels::labelled_by(int64_t version,
                                                    std::span<const int64_t> photos) {
  return tables_->reading([&] {
    std::vector<int64_t> labelled;
    const auto task = tables_->integer("SELECT task FROM versions WHERE id = ?", version);
    if (!task) return labelled;
    std::vector<int64_t> distinct(photos.begin(), photos.end());
    std::ranges::sort(distinct);
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    const std::vector<int64_t> all = labelled_about(*tables_, *task, version, distinct);
    for (const int64_t photo : photos) {
      if (std::ranges::binary_search(all, photo)) labelled.push_back(photo);
    }
    return labelled;
  });
}

Result<LabelPage> SqlLabels::query(const LabelQuery& query) {
  check_limit(query.limit);
  return tables_->reading([&] {
    LabelPage page;
    if (query.stale) {
      page.rows = stale_rows(*tables_, query);
    } else if (query.class_id) {
      page.rows = rows_by(*tables_, query, tables_->by_index("labels_class"), "");
    } else if (query.version) {
      page.rows = rows_by(*tables_, query, tables_->by_index("labels_version"), "");
    } else if (!asks_for_models(query)) {
      page.rows =
          rows_by(*tables_, query, tables_->by_index("labels_version"), " AND l.version IS NULL");
    } else {
      page.rows = rows_by(*tables_, query, "", "");
    }
    if (static_cast<int64_t>(page.rows.size()) > query.limit) {
      page.rows.resize(static_cast<size_t>(query.limit));
      page.next = LabelCursor{page.rows.back().photo, page.rows.back().path};
    }
    return page;
  });
}

Result<std::vector<LabelRow>> SqlLabels::history(int64_t task, int64_t photo) {
  return tables_->reading([&] {
    std::vector<LabelRow> found;
    if (tables_->is_hidden(photo)) return found;
    tables_->rows([&](const SqlRow& r) { found.push_back(label_row(r)); },
                  "SELECT " + std::string(kLabelColumns) + " FROM labels l" +
                      std::string(kLabelJoins) +
                      " WHERE l.task = ? AND l.photo = ? ORDER BY l.time DESC, l.seq DESC",
                  task, photo);
    return found;
  });
}

Result<LabelStats> SqlLabels::stats(int64_t collection, int64_t task) {
  return tables_->reading([&] {
    LabelStats stats;
    stats.photos = *tables_->integer("SELECT count(*)" + tables_->collected_photos(), collection);
    const std::string labels =
        tables_->has_all_photos(collection)  // then none need be looked up
            ? " FROM labels l WHERE ? > 0"
            : tables_->collected_photos() + " CROSS JOIN labels l WHERE l.photo = p.photo";
    std::map<int64_t, std::string> names;
    tables_->rows([&](const SqlRow& r) { names[r.integer(0)] = r.bytes(1); },
                  "SELECT id, name FROM classes WHERE task = ?", task);
    const auto in_force = tables_->integer("SELECT in_force FROM tasks WHERE id = ?", task);
    std::map<std::string, int64_t> classes, sources;
    tables_->rows(
        [&](const SqlRow& r) {
          const int64_t n = r.integer(3);
          stats.labelled += n;
          if (in_force && !r.is_null(2) && r.integer(2) != *in_force) stats.stale += n;
          classes[names[r.integer(0)]] += n;
          sources[std::string(name_of(static_cast<LabelSource>(r.integer(1))))] += n;
        },
        "SELECT l.class, l.source, l.version, count(*)" + labels +
            " AND l.task = ? AND +l.current = 1 GROUP BY l.class, l.source, l.version",
        collection, task);
    const auto most_first = [](const std::map<std::string, int64_t>& counts) {
      Counts sorted(counts.begin(), counts.end());
      std::ranges::stable_sort(sorted, std::greater<>(), &Counts::value_type::second);
      return sorted;
    };
    stats.by_class = most_first(classes);
    stats.by_source = most_first(sources);
    return stats;
  });
}

}  // namespace ndtrain::ndp
