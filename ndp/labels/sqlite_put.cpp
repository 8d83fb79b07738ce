// How labels get in, and which of them is current.
#include <cmath>
#include <tuple>

#include "ndp/labels/label_row.h"
#include "ndp/labels/sqlite_labels.h"

namespace ndtrain {

Result<PutReport> SqliteLabels::put_labels(const LabelBatch& batch) {
  if ((batch.source == LabelSource::kModel) != batch.version.has_value()) {
    throw Error("put_labels: a batch of source ", name_of(batch.source),
                batch.version ? " names a version" : " names no version",
                "; exactly model labels have one");
  }
  return guarded([&] {
    PutReport report;
    sql::Transaction transaction(db_);
    for (const NewLabel& label : batch.labels) {
      if (says_nothing_new(batch, label)) continue;
      ++report.added;
      if (put_label(batch, label)) ++report.current;
    }
    transaction.commit();
    return report;
  });
}

bool SqliteLabels::says_nothing_new(const LabelBatch& batch, const NewLabel& label) {
  if (batch.version) {
    return prepared("SELECT 1 FROM labels WHERE version = ? AND photo = ?")
        .bind(*batch.version, label.photo)
        .step();
  }
  const auto source = static_cast<int64_t>(batch.source);
  sql::Statement& last = prepared(
      "SELECT class FROM labels WHERE photo = ? AND task = ? AND source = ?"
      " ORDER BY time DESC, id DESC LIMIT 1");
  if (!last.bind(label.photo, batch.task, source).step()) return false;
  if (last.integer(0) == label.class_id) return true;
  // An import of an older state, once more.
  return prepared(
             "SELECT 1 FROM labels WHERE photo = ? AND task = ? AND source = ?"
             " AND class = ? AND time = ?")
      .bind(label.photo, batch.task, source, label.class_id, label.time)
      .step();
}

bool SqliteLabels::put_label(const LabelBatch& batch, const NewLabel& label) {
  if (label.score && !std::isfinite(*label.score)) throw Error("label: a score of ", *label.score);
  const auto source = static_cast<int64_t>(batch.source);
  int64_t created = 0;
  if (batch.version) {
    sql::Statement& row = prepared("SELECT created FROM versions WHERE id = ?");
    if (row.bind(*batch.version).step()) created = row.integer(0);
  }
  using Rank = std::tuple<int64_t, int64_t, int64_t, int64_t>;
  const Rank rank{source, created, batch.version.value_or(0), label.time};
  bool current = true;
  sql::Statement& now = prepared(
      "SELECT l.id, l.source, coalesce(v.created, 0), coalesce(l.version, 0), l.time"
      " FROM labels l LEFT JOIN versions v ON v.id = l.version"
      " WHERE l.task = ? AND l.photo = ? AND l.current = 1");
  if (now.bind(batch.task, label.photo).step()) {
    current = rank >= Rank{now.integer(1), now.integer(2), now.integer(3), now.integer(4)};
    const int64_t id = now.integer(0);
    if (current) prepared("UPDATE labels SET current = 0 WHERE id = ?").bind(id).run();
  }
  const std::string top_k = top_k_text(label.top_k);
  prepared(
      "INSERT INTO labels (photo, task, class, score, top_k, source, version, time, current)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(label.photo, batch.task, label.class_id, label.score,
            label.top_k.empty() ? std::nullopt : std::optional(std::string_view(top_k)), source,
            batch.version, label.time, int64_t{current})
      .run();
  return current;
}

}  // namespace ndtrain
