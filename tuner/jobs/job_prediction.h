// What a job was predicted to take, for its report: beside what it took.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tuner/jobs/job_records.h"

namespace ndtrain::tuner {

// The stages that are predicted, by their names in a report; seconds, and bytes of rows.
inline constexpr const char* kPredictedStages[] = {
    "survey_s", "feature_extraction_s", "network_s", "tuner_busy_s", "overall_s", "row_bytes"};

// Of a job of so many photos, a JSON object: those of kPredictedStages that are known, and `by`,
// who says so. That is its own profile (JobSpec::predicted), else the last job that is done and
// whose settings were the same, but for what does not decide what is computed, its model, and its
// photos, of which each is taken to take as long. "{}" where there is neither.
std::string prediction_of(const JobRecord& job, uint64_t photos,
                          const std::map<uint64_t, JobRecord>& jobs);

// Why nothing is predicted of a job like it, and what would.
std::string why_unpredicted(const JobSpec& spec);

}  // namespace ndtrain::tuner
