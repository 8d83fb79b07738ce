// What a job would begin with and take if it was submitted now. One thread, the service's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/core/json.h"
#include "tuner/jobs/job_records.h"
#include "tuner/jobs/store_cover.h"
#include "tuner/models/versions.h"
#include "tuner/plan/job_forecast.h"
#include "tuner/service/photo_holders.h"
#include "tuner/service/store_registry.h"

namespace ndtrain::tuner {
using namespace ndp;

// How many photos' features of an extractor's file, or of all these views, are at the Tuner.
using KeptPhotos =
    std::function<int64_t(const Digest& extractor, bool exact, const ViewRule& views)>;

struct JobPlan {
  uint64_t photos = 0;  // of the stores that take part, copies counted
  StoreCover stores;    // that would take part; enough: all of them where the job waits for others
  // By the cut, "" where training begins: photos whose features are here from earlier jobs of this
  // model over stores.
  std::map<std::string, int64_t> kept;
  Json forecast;  // {"by": "job 3", "stores": [...], "overall_s": ...}; null: nothing like it is
                  // done
};

// What a job that is done would have been said to take: for the report in `result`, beside what it
// took. "{}" where nothing says it.
Json prediction_of_done(const JobRecord& job, const Json& result,
                        const std::vector<std::string>& took, const StoreRegistry& stores,
                        const std::map<uint64_t, JobRecord>& jobs);

class JobPlans {
 public:
  struct Ports {
    const StoreRegistry& stores;
    const PhotoHolders& holders;
    const JobRecords& records;
    const Versions& versions;
    KeptPhotos kept;  // absent: none are
  };
  explicit JobPlans(Ports ports) : ports_(std::move(ports)) {}

  // `choice`: of its stores, at this moment.
  JobPlan of(const JobSpec& spec, const StoreChoice& choice) const;

 private:
  StoreCover cover(const StoreChoice& choice) const;
  std::map<std::string, int64_t> kept(const JobSpec& spec) const;
  Json forecast_of(const JobSpec& spec, const JobPlan& plan) const;

  const Ports ports_;
};

}  // namespace ndtrain::tuner
