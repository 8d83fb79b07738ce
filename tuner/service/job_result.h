// What people are told when a job is done: what it did without, and why its version waits.
#pragma once

#include <optional>
#include <string>

#include "tuner/ingest/row_ingest.h"
#include "tuner/jobs/job_spec.h"
#include "tuner/jobs/job_work.h"
#include "tuner/models/versions.h"
#include "tuner/service/photo_trash.h"
#include "tuner/service/store_registry.h"

namespace ndtrain::tuner {
using namespace ndp;

// The stores and photos that a job did without.
struct MissingData {
  std::string json = "{}";  // for the result of the job
  std::string text = {};    // for people; "": nothing is missing
};
MissingData missing_data(const JobSpec& spec, const RowIngest& ingest, const StoreRegistry& stores,
                         const PhotoTrash& trash);

// Why the job's version is not put in force; "": it is. A rule's word counts for what it compared
// with, which somebody may have replaced meanwhile.
std::string why_it_waits(uint64_t job, Promote promote, const JobOutcome& outcome,
                         const std::optional<PublishedModel>& in_force);

}  // namespace ndtrain::tuner
