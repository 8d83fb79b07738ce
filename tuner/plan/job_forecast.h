// What a fine-tuning takes, by what an earlier one took whose photos cost the same: its costs,
// played through with the stores, links, runs and epochs of this one. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tuner/jobs/job_records.h"
#include "tuner/jobs/store_cover.h"

namespace ndtrain::tuner {

struct ForecastSetting {
  double photos = 0;
  StoreCover stores = {};  // of a job for all; of another, those that it is for: all of them
  // Bytes/s to the Tuner, above 0, by store, of this job and of earlier ones. The Tuner's own link
  // is the fastest of them; a store that is not among them has the slowest. Empty: nothing waits
  // for links.
  std::map<std::string, double> links = {};
  double kept = 0;  // photos whose features are at the Tuner
};

// How fast each of these stores extracts, beside the mean of those that did in the last fine-tuning
// that is done, has made half of its features at least, and in which one of them took part; of one
// that did not, 1. Empty where there is no such job.
std::vector<double> measured_speeds(const std::vector<std::string>& stores,
                                    const std::map<uint64_t, JobRecord>& jobs);

struct Forecast {
  uint64_t by = 0;                            // the job whose costs these are
  std::vector<std::string> stores = {};       // as few as are as fast
  std::map<std::string, double> stages = {};  // by kPredictedStages
};

// By the last one that is done and extracted half of its photos at least; absent where there is
// none, in the modes in which stores make no features, and for other kinds of jobs.
std::optional<Forecast> forecast(const JobSpec& spec, const ForecastSetting& setting,
                                 const std::map<uint64_t, JobRecord>& jobs);

}  // namespace ndtrain::tuner
