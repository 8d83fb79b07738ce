#include "ndp/jobs/truth_rows.h"

#include <algorithm>
#include <map>
#include <set>

namespace ndtrain::ndp {
namespace {

constexpr int64_t kPage = 10'000;

struct Truth {
  size_t row;
  LabelRow label;
};

// By digest, which does not depend on the database's ids.
std::map<Digest, Truth> labelled_rows(LabelDb& db, int64_t collection, int64_t task,
                                      const KnownPhotos& known, int64_t& without_embedding) {
  std::map<Digest, size_t> row_of;
  for (size_t i = 0; i < known.photos.size(); ++i) row_of.emplace(known.photos[i], i);
  std::map<Digest, Truth> found;
  std::set<int64_t> unknown;
  LabelQuery query{.collection = collection,
                   .task = task,
                   .sources = {LabelSource::kHuman, LabelSource::kImport, LabelSource::kFolder},
                   .limit = kPage};
  for (bool more = true; more;) {
    LabelPage page = db.query(query).or_throw();
    for (LabelRow& label : page.rows) {
      const auto row = row_of.find(label.digest);
      if (row == row_of.end()) {
        unknown.insert(label.photo);
      } else {
        const Digest photo = label.digest;
        found.emplace(photo, Truth{row->second, std::move(label)});
      }
    }
    more = page.next.has_value();
    if (more) query.after = *page.next;
  }
  without_embedding = std::ssize(unknown);
  return found;
}

// Labels counted in the classes that are left, of examples that `keeps` wants.
template <typename Keeps>
TruthRows only(TruthRows truth, const Keeps& keeps) {
  TruthRows kept{.without_embedding = truth.without_embedding};
  std::vector<size_t> place(truth.classes.size());
  for (size_t c = 0; c < truth.classes.size(); ++c) {
    place[c] = kept.classes.size();
    if (keeps(c)) kept.classes.push_back(truth.classes[c]);
  }
  for (size_t e = 0; e < truth.examples.size(); ++e) {
    const ProbeExample& example = truth.examples[e];
    if (!keeps(example.label)) continue;
    kept.examples.push_back({example.row, place[example.label]});
    kept.labels.push_back(std::move(truth.labels[e]));
  }
  return kept;
}

}  // namespace

TruthRows truth_rows(LabelDb& db, int64_t collection, int64_t task, const KnownPhotos& known) {
  TruthRows truth;
  std::map<Digest, Truth> rows =
      labelled_rows(db, collection, task, known, truth.without_embedding);
  truth.classes = db.classes(task).or_throw();  // afterwards: a class is there before its labels
  std::map<int64_t, size_t> index;
  for (size_t c = 0; c < truth.classes.size(); ++c) index.emplace(truth.classes[c].id, c);
  for (auto& [photo, row] : rows) {
    truth.examples.push_back({row.row, index.at(row.label.class_id)});
    truth.labels.push_back(std::move(row.label));
  }
  return without_rare_classes(std::move(truth), 1);
}

TruthRows without_rare_classes(TruthRows truth, size_t least) {
  std::vector<size_t> counts(truth.classes.size());
  for (const ProbeExample& e : truth.examples) ++counts[e.label];
  return only(std::move(truth), [&](size_t c) { return counts[c] >= least; });
}

}  // namespace ndtrain::ndp
