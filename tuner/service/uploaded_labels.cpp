#include "tuner/service/uploaded_labels.h"

#include <algorithm>

#include "framework/core/fs.h"
#include "framework/core/log.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// What lines have in common that go in together.
auto kind_of(const wire::Upload& line) {
  return std::tuple(!line.truth().empty(), line.version(), line.task());
}

std::string task_of(const wire::Upload& line) {
  return line.task().empty() ? std::string(kDefaultTask) : line.task();
}

// Stores may not fill the database with tasks.
bool may_have_task(LabelDb& db, const std::string& name) {
  if (name == kDefaultTask) return true;
  const std::vector<std::string> all = db.tasks().or_throw();
  return std::ssize(all) < wire::kMostTasks || std::ranges::find(all, name) != all.end();
}

// Their ids in the database, where they are from now on.
std::vector<int64_t> photos_of(LabelDb& db, const StorePlace& at,
                               std::span<const wire::Upload> lines) {
  std::vector<PhotoPlace> places;
  for (const wire::Upload& line : lines) {
    places.push_back({join(at.store, line.path()), digest_of(line.digest()).value()});
  }
  return db.add_photos(db.collection(at.collection).or_throw(), places).or_throw();
}

// The version's labels, in the ids of the database. All its classes get ids before the first label
// does, in the order of its outputs, as a relabel does it.
LabelBatch batch_of(LabelDb& db, int64_t task, const PublishedModel& model) {
  (void)db.class_ids(task, model.classes).or_throw();
  const NewVersion version{.number = static_cast<int64_t>(model.version),
                           .content = model.content,
                           .parent = std::nullopt,
                           .created = model.created,
                           .metrics = model.metrics};
  // Only the very first: one that was undone would come back.
  const bool first = db.versions(task).or_throw().empty();
  const int64_t id = db.version(task, version).or_throw();
  if (first) db.put_in_force(task, id).or_throw();
  return {.task = task, .source = LabelSource::kModel, .version = id, .labels = {}};
}

std::vector<std::string> classes_of(const wire::Upload& line) {
  if (!line.truth().empty()) return {line.truth()};
  std::vector<std::string> names;
  for (const wire::TopClass& t : line.top()) names.push_back(t.name());
  return names;
}

// `ids`: of its classes.
NewLabel label_of(const wire::Upload& line, int64_t photo, std::span<const int64_t> ids) {
  NewLabel label{.photo = photo, .class_id = ids[0], .score = {}, .top_k = {}, .time = line.time()};
  if (!line.truth().empty()) return label;
  label.score = line.top(0).score();
  for (size_t i = 0; i < ids.size(); ++i) {
    label.top_k.push_back({ids[i], line.top(static_cast<int>(i)).score()});
  }
  return label;
}

}  // namespace

bool is_by(const wire::Upload& line, const PublishedModel& model) {
  return line.version() == model.version && line.extractor() == bytes_of(model.extractor) &&
         (line.head() == bytes_of(model.head) ||
          (line.head().empty() && model.head == model.extractor));
}

Status UploadedLabels::keep(const StorePlace& at, Lines lines,
                            const std::map<uint64_t, PublishedModel>& versions) {
  try {
    LabelDb& db = db_();
    while (!lines.empty()) {
      const auto other = std::ranges::find_if(
          lines, [&](const wire::Upload& line) { return kind_of(line) != kind_of(lines.front()); });
      const auto n = static_cast<size_t>(other - lines.begin());
      add(db, at, lines.first(n), versions);
      lines = lines.subspan(n);
    }
  } catch (const std::exception& e) {
    return {Code::kIo, e.what()};
  }
  return {};
}

Result<std::vector<std::set<std::string>>> UploadedLabels::holders(std::span<const Digest> photos) {
  try {
    const std::vector<std::vector<CollectedPath>> places = db_().places_of(photos).or_throw();
    std::vector<std::set<std::string>> stores(photos.size());
    for (size_t i = 0; i < photos.size(); ++i) {
      for (const auto& [collection, path] : places[i]) {
        stores[i].insert(path.substr(0, path.find('/')));
      }
    }
    return stores;
  } catch (const std::exception& e) {
    return Status(Code::kIo, e.what());
  }
}

// Also when the database has none of them: an earlier attempt may have been cut off before its end.
Status UploadedLabels::forget(const std::vector<Digest>& photos) {
  try {
    LabelDb& db = db_();
    const std::vector<int64_t> ids = db.photos_with(photos).or_throw();
    if (audit_) {  // as long as the database knows which they are
      std::map<std::string, Digest> paths;
      for (size_t i = 0; i < photos.size(); ++i) {
        paths.emplace("/photos/" + to_hex(photos[i]), photos[i]);
        if (ids[i] != 0) paths.emplace("/labels/" + std::to_string(ids[i]), photos[i]);
      }
      audit_->forget(paths).or_throw();
    }
    db.remove_photos(ids).or_throw();
    return db.restore_from_trash(photos);  // of those that it never had
  } catch (const std::exception& e) {
    return {Code::kIo, e.what()};
  }
}

Status UploadedLabels::remove_task(const std::string& task) {
  try {
    return db_().remove_task(task);
  } catch (const std::exception& e) {
    return {Code::kIo, e.what()};
  }
}

Status UploadedLabels::put_in_trash(const std::vector<Digest>& photos) {
  try {
    return db_().put_in_trash(photos);
  } catch (const std::exception& e) {
    return {Code::kIo, e.what()};
  }
}

Status UploadedLabels::restore_from_trash(const std::vector<Digest>& photos) {
  try {
    return db_().restore_from_trash(photos);
  } catch (const std::exception& e) {
    return {Code::kIo, e.what()};
  }
}

void UploadedLabels::add(LabelDb& db, const StorePlace& at, Lines lines,
                         const std::map<uint64_t, PublishedModel>& versions) {
  const std::vector<int64_t> photos = photos_of(db, at, lines);
  const bool human = !lines.front().truth().empty();
  const auto model = versions.find(lines.front().version());
  if (!human && (lines.front().version() == 0 || model == versions.end())) return;
  const std::string name = task_of(lines.front());
  if (!human && name != model->second.task) return;
  if (!may_have_task(db, name))
    return log::warn("{} labels of store {} are left out: there are {} tasks, and '{}' is another",
                     lines.size(), at.store, wire::kMostTasks, name);
  const int64_t task = db.task(name).or_throw();
  LabelBatch batch = human ? LabelBatch{.task = task, .source = LabelSource::kHuman}
                           : batch_of(db, task, model->second);
  const int64_t store_id = db.store(at.store).or_throw();
  std::vector<size_t> labelled;
  std::vector<std::string> names;  // of all of them, for one call
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!human && (lines[i].top().empty() || !is_by(lines[i], model->second))) continue;
    labelled.push_back(i);
    std::ranges::move(classes_of(lines[i]), std::back_inserter(names));
  }
  const std::vector<int64_t> ids = db.class_ids(task, names).or_throw();
  std::span<const int64_t> rest = ids;
  for (const size_t i : labelled) {
    const size_t n = human ? 1 : static_cast<size_t>(lines[i].top().size());
    batch.labels.push_back(label_of(lines[i], photos[i], rest.first(n)));
    batch.labels.back().store = store_id;
    rest = rest.subspan(n);
  }
  const Result<PutReport> put = db.put_labels(batch);
  if (put.status().code() == Code::kCancelled) return;  // nobody wants that version's labels
  put.status().or_throw();
}

}  // namespace ndtrain::tuner
