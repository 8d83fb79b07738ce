// Which version counts, and what two of them say.
#include "ndp/labels/label_row.h"
#include "ndp/labels/sql_labels.h"

namespace ndtrain::ndp {
namespace {

// In a collection, of the label with this alias; `all` when there are no photos outside of it, so
// that none need be looked up.
std::string collected(const std::string& alias, bool all = false) {
  return all ? " AND ? > 0"
             : " AND EXISTS (SELECT 1 FROM places p WHERE p.photo = " + alias +
                   ".photo AND p.collection = ?)";
}

std::vector<int64_t> current_by(LabelTables& db, int64_t task, int64_t version, int64_t above) {
  std::vector<int64_t> photos;
  db.rows([&](const SqlRow& r) { photos.push_back(r.integer(0)); },
          "SELECT l.photo FROM labels l" + db.by_index("labels_version") +
              " WHERE l.task = ? AND l.version = ? AND l.current = 1 AND l.photo > ?"
              " ORDER BY l.photo LIMIT ?",
          task, version, above, LabelTables::kPage);
  return photos;
}

int64_t choose_current(LabelTables& db, int64_t task, std::span<const int64_t> photos,
                       const VersionOrder& order) {
  const std::vector<std::vector<StoredLabel>> held = db.all_labels(task, photos);
  LabelWrites writes{.task = task};
  int64_t chosen = 0;
  for (size_t p = 0; p < photos.size(); ++p) {
    const std::optional<size_t> best = order.best(held[p]);
    for (size_t i = 0; i < held[p].size(); ++i) {
      const StoredLabel& l = held[p][i];
      if (l.current != (best == i)) writes.flags.push_back({photos[p], l, best == i});
    }
    chosen += best.has_value();
  }
  db.write_counted(writes);
  return chosen;
}

// Of all versions two have changed their places: photos that neither has labelled stay as they are.
void judge_again(LabelTables& db, int64_t task, int64_t risen, std::optional<int64_t> fallen) {
  const VersionOrder order = db.version_order(task);
  const auto judge = [&](const auto& next_page) {
    for (int64_t after = 0, n = LabelTables::kPage; n == LabelTables::kPage;) {
      const std::vector<int64_t> photos = next_page(after);
      choose_current(db, task, photos, order);
      n = static_cast<int64_t>(photos.size());
      if (n > 0) after = photos.back();
    }
  };
  judge([&](int64_t after) { return db.labelled_between(task, risen, after, INT64_MAX); });
  if (!fallen || order.above(*fallen) < 2) return;
  judge([&](int64_t after) { return current_by(db, task, *fallen, after); });
}

std::optional<int64_t> in_force_without(LabelTables& db, int64_t task, int64_t version) {
  const auto now = db.integer("SELECT in_force FROM tasks WHERE id = ?", task);
  if (now != version) return now;
  return db.integer(
      "SELECT id FROM versions WHERE task = ? AND withdrawn IS NULL AND id <> ?"
      " ORDER BY created DESC, id DESC LIMIT 1",
      task, version);
}

}  // namespace

Result<std::optional<int64_t>> SqlLabels::in_force(int64_t task) {
  return tables_->reading(
      [&] { return tables_->integer("SELECT in_force FROM tasks WHERE id = ?", task); });
}

Status SqlLabels::put_in_force(int64_t task, int64_t version) {
  return tables_
      ->writing([&] {
        if (tables_->task_of(version) != task) {
          throw sql::Failure{Status(Code::kNotFound, "labels: version " + std::to_string(version) +
                                                         " belongs to another task")};
        }
        const auto before = tables_->integer("SELECT in_force FROM tasks WHERE id = ?", task);
        if (before == version) return true;
        tables_->run("UPDATE versions SET withdrawn = NULL WHERE id = ?", version);
        tables_->run("UPDATE tasks SET in_force = ? WHERE id = ?", version, task);
        judge_again(*tables_, task, version, before);
        return true;
      })
      .status();
}

Result<UndoReport> SqlLabels::preview_undo(int64_t version) {
  return tables_->reading([&] {
    const int64_t task = tables_->task_of(version);
    UndoReport report;
    report.in_force = in_force_without(*tables_, task, version);
    if (tables_->integer("SELECT withdrawn FROM versions WHERE id = ?", version)) return report;
    std::vector<VersionInfo> versions = tables_->versions_of(task);
    for (VersionInfo& v : versions) {
      if (v.id == version) v.withdrawn = 0;
    }
    const VersionOrder order(std::move(versions), report.in_force);
    for (int64_t after = 0, n = LabelTables::kPage; n == LabelTables::kPage;) {
      const std::vector<int64_t> photos = current_by(*tables_, task, version, after);
      for (const auto& held : tables_->all_labels(task, photos)) {
        report.restored += order.best(held).has_value();
      }
      n = static_cast<int64_t>(photos.size());
      report.withdrawn += n;
      if (n > 0) after = photos.back();
    }
    return report;
  });
}

Result<UndoReport> SqlLabels::undo(int64_t version, int64_t time) {
  return tables_->writing([&] {
    const int64_t task = tables_->task_of(version);
    UndoReport report;
    report.in_force = in_force_without(*tables_, task, version);
    if (tables_->integer("SELECT withdrawn FROM versions WHERE id = ?", version)) return report;
    tables_->run("UPDATE versions SET withdrawn = ? WHERE id = ?", time, version);
    tables_->run("UPDATE tasks SET in_force = ? WHERE id = ?", report.in_force, task);
    const VersionOrder order = tables_->version_order(task);
    for (bool more = true; more;) {
      const std::vector<int64_t> photos = current_by(*tables_, task, version, 0);
      more = static_cast<int64_t>(photos.size()) == LabelTables::kPage;
      report.withdrawn += static_cast<int64_t>(photos.size());
      report.restored += choose_current(*tables_, task, photos, order);
    }
    return report;
  });
}

Result<LabelDiff> SqlLabels::diff(int64_t collection, int64_t from, int64_t to) {
  return tables_->reading([&] {
    const int64_t task = tables_->task_of(from);
    if (tables_->task_of(to) != task) {
      throw sql::Failure{Status(Code::kNotFound, "labels: the versions are of two tasks")};
    }
    LabelDiff diff;
    const std::string here = collected("a", tables_->has_all_photos(collection));
    tables_->rows(
        [&](const SqlRow& r) {
          const int64_t n = r.integer(2);
          if (r.is_null(1)) {
            diff.only_from += n;
            return;
          }
          const std::string old_name = r.bytes(0), new_name = r.bytes(1);
          (old_name == new_name ? diff.same : diff.changed) += n;
          if (old_name != new_name) diff.changes.push_back({old_name, new_name, n});
        },
        "SELECT ca.name, cb.name, d.n FROM"
        " (SELECT a.class AS old, b.class AS new, count(*) AS n FROM labels a"
        " LEFT JOIN labels b ON b.photo = a.photo AND b.task = a.task AND b.version = ?"
        " WHERE a.task = ? AND a.version = ?" +
            here +
            " GROUP BY a.class, b.class) d"
            " JOIN classes ca ON ca.task = ? AND ca.id = d.old"
            " LEFT JOIN classes cb ON cb.task = ? AND cb.id = d.new"
            " ORDER BY d.n DESC, ca.name, cb.name",
        to, task, from, collection, task, task);
    const auto labelled =
        tables_->integer("SELECT count(*) FROM labels a WHERE a.task = ? AND a.version = ?" + here,
                         task, to, collection);
    diff.only_to = labelled.value_or(0) - diff.same - diff.changed;
    return diff;
  });
}

Result<std::vector<ChangedPhoto>> SqlLabels::changed_photos(const DiffQuery& q) {
  if (q.limit < 1) throw Error("labels: a limit of ", q.limit, ", at least 1 is needed");
  return tables_->reading([&] {
    const int64_t task = tables_->task_of(q.from);
    std::vector<ChangedPhoto> photos;
    const int64_t any = -1;
    tables_->rows(
        [&](const SqlRow& r) {
          ChangedPhoto& c = photos.emplace_back();
          c.photo = r.integer(0);
          c.path = r.bytes(1);
          c.from = r.bytes(2);
          c.to = r.bytes(3);
          if (!r.is_null(4)) c.from_score = r.real(4);
          if (!r.is_null(5)) c.to_score = r.real(5);
        },
        "SELECT a.photo, (SELECT p.path FROM places p WHERE p.photo = a.photo AND p.collection = ?"
        " ORDER BY p.path LIMIT 1), ca.name, cb.name, a.score, b.score FROM labels a"
        " JOIN labels b ON b.photo = a.photo AND b.task = a.task"
        " JOIN classes ca ON ca.task = a.task AND ca.id = a.class"
        " JOIN classes cb ON cb.task = b.task AND cb.id = b.class"
        " WHERE a.photo > ? AND a.task = ? AND a.version = ? AND b.version = ?"
        " AND a.class <> b.class AND ? IN (a.class, -1) AND ? IN (b.class, -1)" +
            collected("a") + " ORDER BY a.photo LIMIT ?",
        q.collection, q.after, task, q.from, q.to, q.from_class.value_or(any),
        q.to_class.value_or(any), q.collection, q.limit);
    return photos;
  });
}

}  // namespace ndtrain::ndp
