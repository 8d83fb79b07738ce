// What is counted as labels and photos come and go (label_counts.h), and questions that the counts
// answer.
#include <algorithm>
#include <iterator>

#include "ndp/labels/sql_labels.h"

namespace ndtrain::ndp {

std::vector<std::pair<int64_t, int64_t>> LabelTables::collected(std::span<const int64_t> photos) {
  std::vector<std::pair<int64_t, int64_t>> found;
  each_of(photos, "photo, collection", "places", "",
          [&](const SqlRow& r) { found.emplace_back(r.integer(0), r.integer(1)); });
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

void LabelTables::apply(LabelCountChanges changes) {
  for (const auto& [collection, photos] : changes.photos()) {
    run("INSERT INTO photo_counts (collection, photos) VALUES (?, ?) ON CONFLICT (collection)"
        " DO UPDATE SET photos = photo_counts.photos + excluded.photos",
        collection, photos);
  }
  write_counts(changes.take_labels());
}

void LabelTables::write_counted(const LabelWrites& w) {
  write(w);
  struct Change {
    int64_t photo;
    StoredLabel label;
    int64_t n;
  };
  std::vector<Change> changed;
  for (const LabelWrites::Flag& f : w.flags) {
    changed.push_back({f.photo, f.label, f.current ? 1 : -1});
  }
  for (const LabelWrites::Row& r : w.rows) {
    if (!r.current) continue;
    const StoredLabel label{.version = w.version.value_or(0),
                            .class_id = r.label->class_id,
                            .time = r.time,
                            .score = r.label->score.value_or(0)};
    changed.push_back({r.label->photo, label, 1});
  }
  if (changed.empty()) return;
  std::ranges::stable_sort(changed, {}, &Change::photo);
  std::vector<int64_t> photos;
  for (const Change& c : changed) {
    if (photos.empty() || photos.back() != c.photo) photos.push_back(c.photo);
  }
  LabelCountChanges changes;
  for (const auto& [photo, collection] : collected(photos)) {
    for (const Change& c : std::ranges::equal_range(changed, photo, {}, &Change::photo)) {
      changes.add_label(collection, w.task, c.label, c.n);
    }
  }
  apply(std::move(changes));
}

void LabelTables::placing_counted(std::vector<int64_t> photos,
                                  const std::function<void()>& change) {
  if (photos.empty()) return change();
  std::ranges::sort(photos);
  photos.erase(std::unique(photos.begin(), photos.end()), photos.end());
  std::multimap<int64_t, std::pair<int64_t, StoredLabel>> labels;  // of which task; by photo
  each_of(photos, "photo, task, version, class, time, score", "labels", " AND current = 1",
          [&](const SqlRow& r) {
            const StoredLabel label{.version = r.is_null(2) ? 0 : r.integer(2),
                                    .class_id = r.integer(3),
                                    .time = r.integer(4),
                                    .score = r.is_null(5) ? 0 : r.real(5)};
            labels.emplace(r.integer(0), std::pair(r.integer(1), label));
          });
  const auto before = collected(photos);
  change();
  const auto after = collected(photos);
  LabelCountChanges changes;
  const auto count = [&](const auto& those, const auto& others, int64_t n) {
    std::vector<std::pair<int64_t, int64_t>> only;
    std::ranges::set_difference(those, others, std::back_inserter(only));
    for (const auto& [photo, collection] : only) {
      changes.add_photo(collection, n);
      const auto [begin, end] = labels.equal_range(photo);
      for (auto it = begin; it != end; ++it) {
        changes.add_label(collection, it->second.first, it->second.second, n);
      }
    }
  };
  count(before, after, -1);
  count(after, before, 1);
  apply(std::move(changes));
}

Result<LabelCounts> SqlLabels::counts(int64_t collection, int64_t task) {
  return tables_->reading([&] {
    LabelCounts counts;
    counts.photos =
        tables_->integer("SELECT photos FROM photo_counts WHERE collection = ?", collection)
            .value_or(0);
    tables_->rows(
        [&](const SqlRow& r) {
          counts.labelled += r.integer(1);
          if (r.integer(0) != 0) counts.by_version[r.integer(0)] = r.integer(1);
        },
        // The sum's query names each version, and so finds its row by the key.
        "SELECT c.version, c.labels FROM (SELECT id FROM versions WHERE task = ?"
        " UNION ALL SELECT 0) v CROSS JOIN label_counts c WHERE c.collection = ? AND c.task = ?"
        " AND c.version = v.id AND c.seconds = 0",
        task, collection, task);
    return counts;
  });
}

Result<std::vector<ClassCount>> SqlLabels::class_counts(int64_t collection, int64_t version,
                                                        int64_t since, int64_t until) {
  return tables_->reading([&] {
    const int64_t task = tables_->task_of(version);
    std::map<int64_t, ClassCount> classes;
    for (const CountedSpans& spans : counted_spans(since, until)) {
      tables_->rows(
          [&](const SqlRow& r) {
            ClassCount& c = classes[r.integer(0)];
            c.photos += r.integer(1);
            c.scores += r.real(2);
          },
          "SELECT class, CAST(sum(labels) AS BIGINT), sum(scores) FROM label_counts"
          " WHERE collection = ? AND task = ? AND version = ? AND seconds = ? AND since >= ?"
          " AND since < ? GROUP BY class",
          collection, task, version, spans.seconds, spans.since, spans.until);
    }
    std::vector<ClassCount> found;
    if (classes.empty()) return found;
    tables_->rows(
        [&](const SqlRow& r) {
          const auto counted = classes.find(r.integer(0));
          if (counted == classes.end()) return;
          counted->second.class_name = r.bytes(1);
          found.push_back(std::move(counted->second));
        },
        "SELECT id, name FROM classes WHERE task = ? ORDER BY id", task);
    return found;
  });
}

Result<int64_t> SqlLabels::count_truths(int64_t collection, int64_t task, int64_t since,
                                        int64_t most) {
  return tables_->reading([&] {
    return tables_
        ->integer("SELECT count(*) FROM (SELECT 1 FROM labels l" +
                      tables_->by_index("labels_truths") +
                      " WHERE l.task = ? AND l.time >= ? AND l.current = 1 AND l.version IS NULL"
                      " AND EXISTS (SELECT 1 FROM places p WHERE p.photo = l.photo"
                      " AND p.collection = ?) LIMIT ?) t",
                  task, since, collection, most)
        .value_or(0);
  });
}

}  // namespace ndtrain::ndp
