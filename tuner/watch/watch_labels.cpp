#include "tuner/watch/watch_labels.h"

#include <algorithm>
#include <functional>

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr int64_t kPage = 5'000;

// Rows of photos, each once, until `take` has enough.
Status photos_of(LabelDb& db, LabelQuery query, const std::function<bool(const LabelRow&)>& take) {
  int64_t last = 0;
  while (true) {
    const Result<LabelPage> page = db.query(query);
    if (!page.ok()) return page.status();
    for (const LabelRow& row : page->rows) {
      if (row.photo == last) continue;
      last = row.photo;
      if (!take(row)) return {};
    }
    if (!page->next) return {};
    query.after = *page->next;
  }
}

// Until the database has the version in force too, it counts all labels by models as current.
Result<bool> any_stale(LabelDb& db, LabelQuery query, std::optional<int64_t> in_force) {
  const Result<std::optional<int64_t>> counted = db.in_force(query.task);
  if (!counted.ok()) return counted.status();
  if (in_force && *counted == in_force) {
    query.stale = true;
  } else {
    query.sources = {LabelSource::kModel};
  }
  query.limit = 1;
  const Result<LabelPage> page = db.query(query);
  if (!page.ok()) return page.status();
  return !page->rows.empty();
}

Status read_windows(LabelDb& db, LabelQuery query, const WatchTimes& times,
                    WatchObservation& observation) {
  query.sources = {LabelSource::kModel};
  query.since = times.earlier;
  query.until = times.now;
  return photos_of(db, query, [&](const LabelRow& row) {
    (row.time < times.later ? observation.earlier : observation.later)
        .add(row.class_name, row.score.value_or(0));
    return true;
  });
}

Result<int64_t> count_truths(LabelDb& db, LabelQuery query, const WatchQuery& q) {
  query.sources = {LabelSource::kHuman, LabelSource::kImport, LabelSource::kFolder};
  query.since = q.trained + 1;  // the training has what was there when it was submitted
  query.limit = std::clamp<int64_t>(q.enough, 1, kPage);
  int64_t n = 0;
  const Status s = photos_of(db, query, [&](const LabelRow&) { return ++n < q.enough; });
  if (!s.ok()) return s;
  return n;
}

}  // namespace

Result<WatchObservation> read_labels(LabelDb& db, const WatchQuery& q) {
  WatchObservation observation;
  const auto collection = existing_collection(db, q.collection);
  const auto task = existing_task(db, q.task);
  for (const auto* id : {&collection, &task}) {
    if (id->status().code() == Code::kNotFound) return observation;  // nobody has labelled anything
    if (!id->ok()) return id->status();
  }
  const LabelQuery all{.collection = *collection, .task = *task, .limit = kPage};
  const Result<int64_t> truths = count_truths(db, all, q);
  if (!truths.ok()) return truths.status();
  observation.truths = *truths;
  if (!q.in_force) return observation;
  if (q.count_missing) {
    const Result<LabelStats> stats = db.stats(*collection, *task);
    if (!stats.ok()) return stats.status();
    observation.photos = stats->photos;
    observation.labelled = stats->labelled;
  }

  const auto versions = db.versions(*task);
  if (!versions.ok()) return versions.status();
  const auto mine = std::ranges::find(*versions, *q.in_force, &VersionInfo::content);
  std::optional<int64_t> version;
  if (mine != versions->end()) version = mine->id;
  const Result<bool> stale = any_stale(db, all, version);
  if (!stale.ok()) return stale.status();
  observation.stale = *stale;
  if (!version) return observation;
  LabelQuery by_it = all;
  by_it.version = version;
  if (const Status s = read_windows(db, by_it, q.times, observation); !s.ok()) return s;
  return observation;
}

}  // namespace ndtrain::tuner
