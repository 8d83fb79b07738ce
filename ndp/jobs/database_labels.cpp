#include "ndp/jobs/database_labels.h"

#include <fmt/format.h>

namespace ndtrain::ndp {
namespace {

constexpr int64_t kPage = 10'000;

}  // namespace

DatabaseLabels::DatabaseLabels(const DatabaseLabelsConfig& config) : config_(config) {
  const auto db = open_label_db(config.url, OpenLabelDb::kExisting).or_throw();
  const int64_t collection = existing_collection(*db, config.collection).or_throw();
  read(*db, collection, existing_task(*db, config.task).or_throw());
}

void DatabaseLabels::read(LabelDb& db, int64_t collection, int64_t task) {
  std::unordered_map<int64_t, int> index;
  for (const ClassInfo& c : db.classes(task).or_throw()) {
    index.emplace(c.id, static_cast<int>(classes_.size()));
    classes_.push_back(c.name);
  }
  LabelQuery query{.collection = collection, .task = task, .limit = kPage};
  query.sources = {LabelSource::kHuman, LabelSource::kImport, LabelSource::kFolder};
  if (config_.pseudo) query.sources.push_back(LabelSource::kModel);
  for (bool more = true; more;) {
    const LabelPage page = db.query(query).or_throw();
    for (const LabelRow& row : page.rows) {
      // A class that another process has added since belongs to a label that came later too.
      if (const auto it = index.find(row.class_id); it != index.end()) {
        labels_.insert_or_assign(row.digest, Label{it->second, row.source, row.time});
      }
    }
    more = page.next.has_value();
    if (more) query.after = *page.next;
  }
}

void DatabaseLabels::label(PhotoSet& set) const {
  const size_t before = set.photos.size();
  set.classes = classes_;
  for (Photo& p : set.photos) {
    const auto it = labels_.find(p.digest);
    p.label = -1;
    if (it == labels_.end()) continue;
    p.label = it->second.class_index;
    if (it->second.source != LabelSource::kModel) p.label_time = it->second.time;
  }
  std::erase_if(set.photos, [](const Photo& p) { return p.label < 0; });
  set.unlabelled += static_cast<int64_t>(before - set.photos.size());
  if (!set.photos.empty()) return;
  throw Error(set.root, ": none of its ", before, " photos has a label that counts in ",
              config_.url, " (collection '", config_.collection, "', task '", config_.task,
              "'); say what they show by ndtrain labels set or ndtrain labels import",
              config_.pseudo ? "" : ", or train on what models said by --pseudo");
}

std::string DatabaseLabels::sources_of(const PhotoSet& set) const {
  std::map<LabelSource, int64_t, std::greater<>> counts;
  for (const Photo& p : set.photos) {
    if (const auto it = labels_.find(p.digest); it != labels_.end()) ++counts[it->second.source];
  }
  std::string out;
  for (const auto& [source, n] : counts)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", n, name_of(source));
  return out;
}

}  // namespace ndtrain::ndp
