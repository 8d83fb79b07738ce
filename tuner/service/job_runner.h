// The job in progress, from its start to its end: its rows come in (JobIngest), its work is told of
// each run that is complete, and what comes of it is published. A killed Tuner goes on with it. One
// thread, the service's; the work is on the job lane and the sink on the keep lane, at most one
// task on each. What a task or a full disk throws fails the job; a sink that is away
// (SinkUnavailable) is asked again.
#pragma once

#include <atomic>
#include <functional>
#include <string>

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
  };
  explicit JobRunner(const Ports& ports);

  // Nothing is in progress, and no task of what was is out: such a task holds its job's files.
  bool idle() const { return !active_ && tasks_ == 0; }
  bool takes_a_job() const { return idle() && !stopping_; }
  bool in_progress(uint64_t job) const { return active_ && active_->id == job; }
  // It has stores enough, or needs none.
  bool has_begun(uint64_t job) const {
    return in_progress(job) && active_->phase >= JobPhase::kOpening;
  }

  void begin(const JobRecord& record, bool again);
  void leave();  // the job in progress is as its record says
  JobIngest& ingest() { return ingest_; }
  void model_bytes_sent(uint64_t bytes);

  void tick();
  Time next() const;  // when tick() has something to do; Time::max() for never

  std::string doing() const;                         // for people; "": nothing
  const StoreChoice* waits_for(uint64_t job) const;  // null: for nobody
  JobReport::Counts counts() const;                  // of the job in progress
  JobReport::Counts total_counts() const;            // since this process began

  // The job in progress stops where it can go on after the next start.
  void stop();
  bool stopped() const { return stopping_ && !active_; }

 private:
  Time now() const { return ports_.clock.monotonic(); }
  const ActivePtr& active() const override { return active_; }
  void start(const ActivePtr& job, size_t lane, std::function<Continuation()> f) override;
  void work_on_runs(const ActivePtr& job) override;
  void fail(const ActivePtr& job, const std::string& why) override {
    end(job, JobState::kFailed, why);
  }
  void finished(const ActivePtr& job, const JobOutcome& outcome);
  std::string publish(const ActivePtr& job, const JobOutcome& outcome, Json& result);
  void end(const ActivePtr& job, JobState state, const std::string& message);
  void ended(const ActivePtr& job, size_t lane, const std::string& failure,
             const Continuation& after);
  void sink_away(const ActivePtr& job, size_t lane, const std::function<Continuation()>& f,
                 const std::string& why);

  const Ports ports_;
  ActivePtr active_;
  JobIngest ingest_;
  JobReport::Counts past_;              // of jobs that have ended
  size_t tasks_ = 0;                    // on the lanes, or waiting for this thread
  std::atomic<bool> stopping_ = false;  // a lane asks
};

}  // namespace ndtrain::tuner
