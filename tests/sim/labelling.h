// The Tuner's real relabelling: into a label database that outlives the Tuner, each call to which
// is a transaction before or after which the machine may die.
#pragma once

#include <memory>

#include "ndp/labels/label_db.h"
#include "tests/sim/bugs.h"
#include "tests/sim/collection.h"
#include "tests/sim/watch.h"
#include "tuner/work/label_work.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

// The number of the class that a model of this head sees in the photo, and the row that a store
// makes of it.
inline uint32_t labelled_class(const Digest& photo, const Digest& head) {
  return (photo[2] + head[0]) % Collection::kClasses;
}
std::string label_row(const Digest& photo, const Digest& head);
inline std::string class_name(std::string_view task, uint32_t number) {
  return (task == kDefaultTask ? "class " : std::string(task) + " ") + std::to_string(number);
}

std::unique_ptr<LabelDb> make_database();

// `work` whose sink `watch` hears of, each call to it a transaction.
std::unique_ptr<JobWork> watched_labelling(uint64_t job, std::unique_ptr<JobWork> work, Fs& fs,
                                           Watch& watch);

// Keeps references; `life` counts the Tuner's.
std::unique_ptr<JobWork> make_labelling(uint64_t job, const JobContext& context,
                                        const JobSpec& spec, const std::string& directory,
                                        PublishedModel model, LabelDb& db, Progress& progress,
                                        Watch& watch, Bug bug, uint64_t life);

// A photo has one label, the right one of this head; none only where no store but `lost` can read
// it, or where photos may be missing (not `whole`).
void check_labels(LabelDb& db, const Collection& photos, const Digest& head, size_t lost,
                  bool whole, Watch& watch);

}  // namespace ndtrain::sim
