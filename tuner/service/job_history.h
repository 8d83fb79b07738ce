// How much is kept of jobs that are over: the newest of them, those that people gave a name, a note
// or tags, and those that made a version which is there. Of the others the directory goes, and of a
// fine-tuning whose version was removed the files of its model. One thread, the service's; files
// are removed on the upload lane, behind the deletions that look into them.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "framework/core/lanes.h"
#include "tuner/jobs/job_records.h"
#include "tuner/models/versions.h"

namespace ndtrain::tuner {
using namespace ndp;

class JobHistory {
 public:
  struct Ports {
    Lanes& lanes;
    JobRecords& records;
    const Versions& versions;
    size_t kept;                             // of jobs that are over
    std::function<void(uint64_t job)> gone;  // with all its files
  };
  explicit JobHistory(Ports ports) : ports_(std::move(ports)) {}

  // Looks, where a job has another state than before or a version was removed.
  void pump();
  void version_removed() { look_ = true; }
  void stop() { stopping_ = true; }

 private:
  static constexpr size_t kAtOnce = 16;  // so that what waits on the lane has its turn

  std::vector<uint64_t> too_many() const;         // oldest first, at most kAtOnce
  std::vector<uint64_t> without_version() const;  // whose models are there, as far as is known

  const Ports ports_;
  uint64_t seen_ = 0;            // the records' saves() when it looked
  std::set<uint64_t> stripped_;  // whose models were removed by this process
  bool look_ = true;             // for such models, too
  bool working_ = false, stopping_ = false;
};

}  // namespace ndtrain::tuner
