// What people ask of jobs: they are submitted, put away, resumed, and begin in their order, but for
// those that wait for none of the others. What is accepted is durable on return; all throw Error.
// One thread, the service's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/clock.h"
#include "tuner/jobs/job_records.h"
#include "tuner/models/model_store.h"
#include "tuner/models/versions.h"
#include "tuner/service/job_runner.h"
#include "tuner/service/photo_deletions.h"
#include "tuner/service/store_registry.h"

namespace ndtrain::tuner {
using namespace ndp;

// What a job that is to begin waits for.
struct JobWait {
  uint64_t job = 0;
  std::string why;
};

class JobQueue {
 public:
  struct Ports {
    Clock& clock;
    JobRecords& records;
    const StoreRegistry& stores;
    const ModelStore& models;
    const Versions& versions;
    const PhotoDeletions& deletions;
    JobRunner& runner;
    size_t at_once;  // jobs in progress: 1 to kMostJobsAtOnce
  };
  explicit JobQueue(const Ports& ports) : ports_(ports) {}

  uint64_t submit(const JobSpec& spec, const Notes& notes = {});
  // Throws Error for what submit() would refuse.
  void check(const JobSpec& spec) const;
  // If it began now: which stores it would take, for whom it would wait.
  StoreChoice stores_for(const JobSpec& spec) const;
  void change_notes(uint64_t job, const NotesChange& change);  // whatever its state
  // The stores stop with it, nothing is held for it, others may go before it; a paused one until it
  // is resumed.
  void cancel(uint64_t job) { put_away(job, JobState::kCancelled); }
  void pause(uint64_t job) { put_away(job, JobState::kPaused); }
  // A paused, failed or cancelled one, from where it was; with `changes`: see changed(). Its stores
  // are settled once they have said what they hold.
  void resume(uint64_t job, std::string_view changes);
  // One that waits for stores begins without those that are not ready, once any is; one that has
  // not begun to wait will not. See choose_stores().
  void start_now(uint64_t job);

  // All jobs that wait for nothing any more.
  void begin_next();
  // Absent: the job is in progress, paused or over, or begins with the next begin_next().
  std::optional<JobWait> waits_for(uint64_t job) const;
  std::optional<JobWait> waits_for(const JobSpec& spec) const;  // if it was submitted now

 private:
  void check_stores(const JobSpec& spec) const;
  void check_task(const JobSpec& spec) const;
  void put_away(uint64_t job, JobState state);
  std::vector<const JobRecord*> due() const;
  std::optional<JobWait> waits_for(const JobRecord& job,
                                   const std::vector<const JobRecord*>& before) const;
  void begin(uint64_t job);

  const Ports ports_;
};

}  // namespace ndtrain::tuner
