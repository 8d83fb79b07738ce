// What photos show according to a label database: the truth that training and evaluation use.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "framework/core/digest_hash.h"
#include "ndp/jobs/photo_set.h"
#include "ndp/labels/label_db.h"

namespace ndtrain::ndp {

struct DatabaseLabelsConfig {
  std::string url;  // "sqlite:FILE"; "": labels come from elsewhere
  std::string collection = std::string(kDefaultCollection), task = std::string(kDefaultTask);
  bool pseudo = false;  // a model's labels count too, where nobody else has said anything
};

// The labels of one task for the photos of one collection, as they are when this is made. A photo
// is its bytes, wherever it lies. Of several labels the highest source's counts: human, import,
// folder, then model.
class DatabaseLabels {
 public:
  // Throws Error when there is no such database, collection or task; nothing is made.
  explicit DatabaseLabels(const DatabaseLabelsConfig& config);

  // Of the task, by id: a model trained on them has class i at output i, whatever names come later.
  const std::vector<std::string>& classes() const { return classes_; }

  // Gives the photos their labels, counted in classes(), with their times, of what a model said
  // none, and takes out and counts those without.
  // Throws Error when none is left.
  void label(PhotoSet& set) const;

  // "120 human, 30 import", of the photos of a labelled set.
  std::string sources_of(const PhotoSet& set) const;

 private:
  struct Label {
    int class_index;
    LabelSource source;
    int64_t time;
  };

  void read(LabelDb& db, int64_t collection, int64_t task);

  DatabaseLabelsConfig config_;
  std::vector<std::string> classes_;
  std::unordered_map<Digest, Label, DigestHash> labels_;
};

}  // namespace ndtrain::ndp
