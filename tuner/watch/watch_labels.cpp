#include "tuner/watch/watch_labels.h"

#include <algorithm>

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// Until the database has the version in force too, it counts all labels by models as current.
Result<bool> any_stale(LabelDb& db, int64_t task, const LabelCounts& counts,
                       std::optional<int64_t> in_force) {
  const Result<std::optional<int64_t>> counted = db.in_force(task);
  if (!counted.ok()) return counted.status();
  const bool known = in_force && *counted == in_force;
  return std::ranges::any_of(counts.by_version,
                             [&](const auto& v) { return !known || v.first != *in_force; });
}

Status read_window(LabelDb& db, int64_t collection, int64_t version, int64_t since, int64_t until,
                   LabelWindow& window) {
  const auto classes = db.class_counts(collection, version, since, until);
  if (!classes.ok()) return classes.status();
  for (const ClassCount& c : *classes) window.add(c.class_name, c.photos, c.scores);
  return {};
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
  // A training has what was there when it was submitted.
  const Result<int64_t> truths =
      db.count_truths(*collection, *task, q.trained + 1, std::max<int64_t>(q.enough, 1));
  if (!truths.ok()) return truths.status();
  observation.truths = *truths;
  if (!q.in_force) return observation;
  const Result<LabelCounts> counts = db.counts(*collection, *task);
  if (!counts.ok()) return counts.status();
  if (q.count_missing) {
    observation.photos = counts->photos;
    observation.labelled = counts->labelled;
  }

  const auto versions = db.versions(*task);
  if (!versions.ok()) return versions.status();
  const auto mine = std::ranges::find(*versions, *q.in_force, &VersionInfo::content);
  std::optional<int64_t> version;
  if (mine != versions->end()) version = mine->id;
  const Result<bool> stale = any_stale(db, *task, *counts, version);
  if (!stale.ok()) return stale.status();
  observation.stale = *stale;
  if (!version) return observation;
  const WatchTimes& t = q.times;
  if (const Status s =
          read_window(db, *collection, *version, t.earlier, t.later, observation.earlier);
      !s.ok()) {
    return s;
  }
  const Status s = read_window(db, *collection, *version, t.later, t.now + 1, observation.later);
  if (!s.ok()) return s;
  return observation;
}

}  // namespace ndtrain::tuner
