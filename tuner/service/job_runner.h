// The jobs in progress, from their start to their end: rows come in (JobIngest), a job's work is
// told of each run that is complete, and what comes of it is published. A killed Tuner goes on with
// them. One thread, the service's; each has two lanes of its own, for its work and for its sink, at
// most one task on each. What a task throws fails the job, unless the volume is full: then it waits
// for room (RoomWait); a sink that is away (SinkUnavailable) is asked again. Who may run beside
// whom, JobQueue says.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "framework/core/json_fwd.h"
#include "framework/core/lanes.h"
#include "tuner/jobs/job_records.h"
#include "tuner/models/versions.h"
#include "tuner/service/active_job.h"
#include "tuner/service/job_ingest.h"
#include "tuner/service/model_distribution.h"
#include "tuner/service/photo_holders.h"
#include "tuner/service/photo_trash.h"
#include "tuner/service/room_wait.h"
#include "tuner/service/store_registry.h"

namespace ndtrain::tuner {
using namespace ndp;

class JobRunner final : JobControl {
 public:
  using Time = StoreRegistry::Time;

  struct Ports {
    Fs& fs;
    Clock& clock;
    Lanes& lanes;
    JobFactory& works;
    JobRecords& records;
    StoreRegistry& stores;
    PhotoHolders& holders;
    const PhotoTrash& trash;
    ModelDistribution& models;
    const Versions& versions;
    AuditLog* audit = nullptr;  // both as JobIngest::Ports has them
    uint64_t audit_seed = 0;
    std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
  };
  explicit JobRunner(const Ports& ports);
  ~JobRunner();

  // Nothing is in progress, and no task of what was is out: such a task holds its job's files.
  bool idle() const { return jobs_.empty(); }
  bool stopping() const { return stopping_; }
  // Those that are in progress, and those that are over, as long as a task of theirs is out; in the
  // order in which they began.
  const std::vector<ActivePtr>& jobs() const { return jobs_; }
  ActivePtr find(uint64_t job) const;  // in progress; null: it is not

  // One that is not among jobs(), of which there are fewer than kMostJobsAtOnce.
  void begin(const JobRecord& record, bool again);
  void leave(uint64_t job);  // it was in progress, and is as its record says
  void start_now(uint64_t job);
  // Of one that is not in progress, and cannot begin: whether it waits for room from now on.
  bool wait_for_room(uint64_t job, const std::string& why);
  bool waits_for_room(uint64_t job) const { return !room_.text(job).empty(); }
  void stop_waiting(uint64_t job) { room_.end(job); }  // for room; it is put away
  JobIngest& ingest() { return ingest_; }
  void model_bytes_sent(uint64_t bytes);  // for the oldest in progress, where there is one

  void tick();
  Time next() const;  // when tick() has something to do; Time::max() for never

  std::string doing(uint64_t job) const;             // for people; "": nothing
  const StoreChoice* waits_for(uint64_t job) const;  // null: for nobody
  size_t rows_waiting() const;                       // that have come, and wait to be made durable
  JobReport::Counts total_counts() const;            // since this process began

  // The jobs in progress stop where they can go on after the next start.
  void stop();
  bool stopped() const { return stopping_ && in_progress().empty(); }

 private:
  Time now() const { return ports_.clock.monotonic(); }
  std::vector<ActivePtr> in_progress() const override;
  void start(const ActivePtr& job, size_t lane, std::function<Continuation()> f) override;
  void work_on_runs(const ActivePtr& job) override;
  void fail(const ActivePtr& job, const std::string& why) override {
    end(job, JobState::kFailed, why);
  }
  void fail_or_wait(const ActivePtr& job, const std::string& why) override;
  void forget_wrong_rows(const ActivePtr& job);
  void finished(const ActivePtr& job, const JobOutcome& outcome);
  std::string publish(const ActivePtr& job, const JobOutcome& outcome, Json& result);
  // Whether that is durable; where it is not, the next Tuner goes on with the job.
  bool end(const ActivePtr& job, JobState state, const std::string& message);
  void leave(const ActivePtr& job);
  void dismiss(const ActivePtr& job, bool done, const std::string& why);  // stores stop with it
  void put_down(const ActivePtr& job);  // it is over, its record unchanged
  void task_is_back(const ActivePtr& job);
  void note_lines(const ActivePtr& job);
  void ended(const ActivePtr& job, size_t lane, const std::string& failure,
             const Continuation& after);
  void sink_away(const ActivePtr& job, size_t lane, const std::function<Continuation()>& f,
                 const std::string& why);

  const Ports ports_;
  std::vector<ActivePtr> jobs_;
  std::shared_ptr<NumericsSamples> samples_ = std::make_shared<NumericsSamples>();
  JobIngest ingest_;
  RoomWait room_;
  JobReport::Counts past_;              // of jobs that are over
  std::atomic<bool> stopping_ = false;  // a lane asks
};

}  // namespace ndtrain::tuner
