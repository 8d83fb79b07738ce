// What the label database says to a watch.
#pragma once

#include <optional>

#include "ndp/labels/label_db.h"
#include "tuner/watch/watch.h"

namespace ndtrain::tuner {
using namespace ndp;

struct WatchQuery {
  std::string collection = std::string(kDefaultCollection);
  std::string task = std::string(kDefaultTask);
  std::optional<Digest> in_force;  // content of the version in force
  int64_t trained = 0;             // Unix seconds: the newest training that was done was submitted
  int64_t enough = 0;              // truths: counted until there are so many
  bool count_missing = false;      // photos and labelled, of the database
  WatchTimes times;
};

// Of the collection and task: truths, stale, the windows, and where it is asked for, photos and
// labelled. From what the database counts as labels come, so that it takes as long for 10^7 photos
// as for a few. A photo that a person has labelled is in no window.
Result<WatchObservation> read_labels(LabelDb& db, const WatchQuery& query);

}  // namespace ndtrain::tuner
