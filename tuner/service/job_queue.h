// What people ask of jobs: they are submitted, put away, resumed, and begin one after the other.
// What is accepted is durable on return; all throw Error. One thread, the service's.
#pragma once

#include <cstdint>
#include <string_view>

#include "framework/core/clock.h"
#include "tuner/jobs/job_records.h"
#include "tuner/models/model_store.h"
#include "tuner/models/versions.h"
#include "tuner/service/job_runner.h"
#include "tuner/service/photo_deletions.h"
#include "tuner/service/store_registry.h"

namespace ndtrain::tuner {
using namespace ndp;

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
  };
  explicit JobQueue(const Ports& ports) : ports_(ports) {}

  uint64_t submit(const JobSpec& spec, const Notes& notes = {});
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

  // The next job, where nothing stands in its way.
  void begin_next();

 private:
  void check_stores(const JobSpec& spec) const;
  void put_away(uint64_t job, JobState state);

  const Ports ports_;
};

}  // namespace ndtrain::tuner
