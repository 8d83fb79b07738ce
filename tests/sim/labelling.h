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

// The label row that a store makes, and the class that it names.
std::string label_row(const Digest& photo);
inline std::string labelled_class(const Digest& photo) {
  return "class " + std::to_string(photo[2] % 3);
}

std::unique_ptr<LabelDb> make_database();

// Keeps references; `life` counts the Tuner's.
std::unique_ptr<JobWork> make_labelling(const JobContext& context, const JobSpec& spec,
                                        const std::string& directory, PublishedModel model,
                                        LabelDb& db, Progress& progress, Watch& watch, Bug bug,
                                        uint64_t life);

// A photo has one label, the right one; none only where no store but `lost` can read it, or where
// photos may be missing (not `whole`).
void check_labels(LabelDb& db, const Collection& photos, size_t lost, bool whole, Watch& watch);

}  // namespace ndtrain::sim
