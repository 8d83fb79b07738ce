// Which version counts, and what two of them say.
#include "ndp/labels/label_row.h"
#include "ndp/labels/sql_labels.h"

namespace ndtrain {
namespace {

// In a collection, of the label with this alias; `all` when there are no photos outside of it, so
// that none need be looked up.
std::string collected(const std::string& alias, bool all = false) {
  return all ? " AND ? > 0"
             : " AND EXISTS (SELECT 1 FROM places p WHERE p.photo = " + alias +
                   ".photo AND p.collection = ?)";
}

}  // namespace

int64_t SqlLabels::task_of(int64_t version) {
  const auto task = integer("SELECT task FROM versions WHERE id = ?", version);
  if (task) return *task;
  throw sql::Failure{
      Status(Code::kNotFound, "labels: there is no version " + std::to_string(version))};
}

VersionOrder SqlLabels::version_order(int64_t task) {
  return {versions_of(task), integer("SELECT in_force FROM tasks WHERE id = ?", task)};
}

Result<std::optional<int64_t>> SqlLabels::in_force(int64_t task) {
  return reading([&] { return integer("SELECT in_force FROM tasks WHERE id = ?", task); });
}

Status SqlLabels::put_in_force(int64_t task, int64_t version) {
  return writing([&] {
           if (task_of(version) != task) {
             throw sql::Failure{
                 Status(Code::kNotFound,
                        "labels: version " + std::to_string(version) + " belongs to another task")};
           }
           const auto before = integer("SELECT in_force FROM tasks WHERE id = ?", task);
           if (before == version) return true;
           run("UPDATE versions SET withdrawn = NULL WHERE id = ?", version);
           run("UPDATE tasks SET in_force = ? WHERE id = ?", version, task);
           judge_again(task, version, before);
           return true;
         })
      .status();
}

std::vector<int64_t> SqlLabels::labelled_between(int64_t task, int64_t version, int64_t above,
                                                 int64_t to) {
  std::vector<int64_t> photos;
  rows([&](const SqlRow& r) { photos.push_back(r.integer(0)); },
       "SELECT l.photo FROM labels l WHERE l.photo > ? AND l.photo <= ? AND l.task = ?"
       " AND l.version = ? ORDER BY l.photo LIMIT ?",
       above, to, task, version, kPage);
  return photos;
}

std::vector<int64_t> SqlLabels::current_by(int64_t task, int64_t version, int64_t above) {
  std::vector<int64_t> photos;
  rows([&](const SqlRow& r) { photos.push_back(r.integer(0)); },
       "SELECT l.photo FROM labels l" + by_index("labels_version") +
           " WHERE l.task = ? AND l.version = ? AND l.current = 1 AND l.photo > ?"
           " ORDER BY l.photo LIMIT ?",
       task, version, above, kPage);
  return photos;
}

int64_t SqlLabels::choose_current(int64_t task, std::span<const int64_t> photos,
                                  const VersionOrder& order) {
  const std::vector<std::vector<HeldLabel>> held = all_labels(task, photos);
  LabelWrites writes{.task = task};
  int64_t chosen = 0;
  for (size_t p = 0; p < photos.size(); ++p) {
    const std::optional<size_t> best = order.best(held[p]);
    for (size_t i = 0; i < held[p].size(); ++i) {
      const HeldLabel& l = held[p][i];
      if (l.current != (best == i)) writes.flags.push_back({photos[p], l.seq, best == i});
    }
    chosen += best.has_value();
  }
  write(writes);
  return chosen;
}

// Of all versions two have changed their places: photos that neither has labelled stay as they are.
void SqlLabels::judge_again(int64_t task, int64_t risen, std::optional<int64_t> fallen) {
  const VersionOrder order = version_order(task);
  const auto judge = [&](const auto& next_page) {
    for (int64_t after = 0, n = kPage; n == kPage;) {
      const std::vector<int64_t> photos = next_page(after);
      choose_current(task, photos, order);
      n = static_cast<int64_t>(photos.size());
      if (n > 0) after = photos.back();
    }
  };
  judge([&](int64_t after) { return labelled_between(task, risen, after, INT64_MAX); });
  if (!fallen || order.above(*fallen) < 2) return;
  judge([&](int64_t after) { return current_by(task, *fallen, after); });
}

std::optional<int64_t> SqlLabels::in_force_without(int64_t task, int64_t version) {
  const auto now = integer("SELECT in_force FROM tasks WHERE id = ?", task);
  if (now != version) return now;
  return integer(
      "SELECT id FROM versions WHERE task = ? AND withdrawn IS NULL AND id <> ?"
      " ORDER BY created DESC, id DESC LIMIT 1",
      task, version);
}

Result<UndoReport> SqlLabels::preview_undo(int64_t version) {
  return reading([&] {
    const int64_t task = task_of(version);
    UndoReport report;
    report.in_force = in_force_without(task, version);
    if (integer("SELECT withdrawn FROM versions WHERE id = ?", version)) return report;
    std::vector<VersionInfo> versions = versions_of(task);
    for (VersionInfo& v : versions) {
      if (v.id == version) v.withdrawn = 0;
    }
    const VersionOrder order(std::move(versions), report.in_force);
    for (int64_t after = 0, n = kPage; n == kPage;) {
      const std::vector<int64_t> photos = current_by(task, version, after);
      for (const auto& held : all_labels(task, photos)) {
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
  return writing([&] {
    const int64_t task = task_of(version);
    UndoReport report;
    report.in_force = in_force_without(task, version);
    if (integer("SELECT withdrawn FROM versions WHERE id = ?", version)) return report;
    run("UPDATE versions SET withdrawn = ? WHERE id = ?", time, version);
    run("UPDATE tasks SET in_force = ? WHERE id = ?", report.in_force, task);
    const VersionOrder order = version_order(task);
    for (bool more = true; more;) {
      const std::vector<int64_t> photos = current_by(task, version, 0);
      more = static_cast<int64_t>(photos.size()) == kPage;
      report.withdrawn += static_cast<int64_t>(photos.size());
      report.restored += choose_current(task, photos, order);
    }
    return report;
  });
}

Result<LabelDiff> SqlLabels::diff(int64_t collection, int64_t from, int64_t to) {
  return reading([&] {
    const int64_t task = task_of(from);
    if (task_of(to) != task) {
      throw sql::Failure{Status(Code::kNotFound, "labels: the versions are of two tasks")};
    }
    LabelDiff diff;
    const std::string here = collected("a", has_all_photos(collection));
    rows(
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
        integer("SELECT count(*) FROM labels a WHERE a.task = ? AND a.version = ?" + here, task, to,
                collection);
    diff.only_to = labelled.value_or(0) - diff.same - diff.changed;
    return diff;
  });
}

Result<std::vector<ChangedPhoto>> SqlLabels::changed_photos(const DiffQuery& q) {
  if (q.limit < 1) throw Error("labels: a limit of ", q.limit, ", at least 1 is needed");
  return reading([&] {
    const int64_t task = task_of(q.from);
    std::vector<ChangedPhoto> photos;
    const int64_t any = -1;
    rows(
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

}  // namespace ndtrain
