// Which photos a relabelling is for, by what the label database says of them now.
#pragma once

#include <map>
#include <string>

#include "ndp/labels/label_db.h"
#include "tuner/jobs/job_spec.h"

namespace ndtrain::tuner {
using namespace ndp;

class CurrentLabels {
 public:
  struct Label {
    std::string class_name;
    LabelSource source = LabelSource::kModel;
    std::optional<Digest> version;  // content of the model that made it
  };

  // Reads them all; nothing is made where there is no such collection or task.
  static Result<CurrentLabels> read(LabelDb& db, const std::string& collection,
                                    const std::string& task);

  const Label* find(const Digest& photo) const;
  // Whether `version` is to label the photo, if it has not: missing, nobody has said what it shows;
  // stale, another version has; all, either, or a person.
  bool wanted(const Digest& photo, const Digest& version, RelabelOnly only) const;

 private:
  std::map<Digest, Label> labels_;
};

}  // namespace ndtrain::tuner
