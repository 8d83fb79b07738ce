#include "tuner/work/relabel_choice.h"

#include <algorithm>

namespace ndtrain::tuner {
using namespace ndp;

Result<CurrentLabels> CurrentLabels::read(LabelDb& db, const std::string& collection,
                                          const std::string& task) {
  constexpr int64_t kPage = 10'000;
  CurrentLabels labels;
  const auto collections = db.collections(), tasks = db.tasks();
  if (!collections.ok()) return collections.status();
  if (!tasks.ok()) return tasks.status();
  const bool there =
      std::ranges::count(*collections, collection) > 0 && std::ranges::count(*tasks, task) > 0;
  if (!there) return labels;
  const auto c = db.collection(collection), t = db.task(task);
  if (!c.ok()) return c.status();
  if (!t.ok()) return t.status();
  LabelQuery query{.collection = *c, .task = *t, .limit = kPage};
  for (bool more = true; more;) {
    Result<LabelPage> page = db.query(query);
    if (!page.ok()) return page.status();
    for (LabelRow& row : page->rows) {
      labels.labels_[row.digest] = {std::move(row.class_name), row.source, row.version_content};
    }
    more = page->next.has_value();
    if (more) query.after = *page->next;
  }
  return labels;
}

const CurrentLabels::Label* CurrentLabels::find(const Digest& photo) const {
  const auto it = labels_.find(photo);
  return it == labels_.end() ? nullptr : &it->second;
}

bool CurrentLabels::wanted(const Digest& photo, const Digest& version, RelabelOnly only) const {
  const Label* label = find(photo);
  if (!label) return only != RelabelOnly::kStale;
  if (label->source != LabelSource::kModel) return only == RelabelOnly::kAll;
  return label->version != version && only != RelabelOnly::kMissing;
}

}  // namespace ndtrain::tuner
