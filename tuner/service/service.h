// The Tuner: its sessions with PipeStores, its jobs, the versions it has published. A state machine
// over injected files, clock, links and lanes, so that a simulator can drive it; one thread owns
// it, and each of its parts. Everything that must outlive the process is in the state directory
// before anybody hears of it. This class only says which part is meant:
//
//   StoreRegistry      the stores, and what is sent to them
//   PhotoDeletions     photos that people deleted
//   PhotoTrash         photos that they may still restore
//   UploadIngest       what stores say of photos that people upload to them
//   ModelDistribution  versions, and how they get to the stores
//   TaskRemoval        tasks that people take away
//   JobQueue           what people ask of jobs
//   JobRunner          the jobs in progress
//   LinkProbes         what the links to stores carry
//   JobPlans           what a job would take
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/lanes.h"
#include "ndp/http/audit.h"
#include "ndp/wire/protocol.h"
#include "ndp/wire/state_directory.h"
#include "tuner/jobs/job_records.h"
#include "tuner/models/model_store.h"
#include "tuner/models/versions.h"
#include "tuner/service/job_history.h"
#include "tuner/service/job_plan.h"
#include "tuner/service/job_queue.h"
#include "tuner/service/job_rows.h"
#include "tuner/service/job_runner.h"
#include "tuner/service/link_probes.h"
#include "tuner/service/model_distribution.h"
#include "tuner/service/photo_deletions.h"
#include "tuner/service/photo_holders.h"
#include "tuner/service/photo_relay.h"
#include "tuner/service/photo_trash.h"
#include "tuner/service/service_lanes.h"
#include "tuner/service/store_registry.h"
#include "tuner/service/task_removal.h"
#include "tuner/service/upload_ingest.h"

namespace ndtrain::tuner {
using namespace ndp;

class TunerService final : StoreEvents {
 public:
  using Time = StoreRegistry::Time;
  static constexpr size_t kLanes = kServiceLanes;  // that it uses, from 0
  static constexpr size_t kKeptAtOnce = kRowsAtOnce;
  static constexpr size_t kKeptVersions = ModelDistribution::kKeptVersions;

  struct Setting {
    Fs& fs;
    Clock& clock;
    StateDirectory& state;
    LinkServer& links;
    Lanes& lanes;
    JobFactory& works;
    ModelStore& models;
    Versions& versions;
    UploadSink* uploads = nullptr;
    AuditLog* audit =
        nullptr;  // of what nobody asked for: promotions, the end of the trash, what stores say
    // By which a store knows the Tuner's tickets (ndp/http/tickets.h); absent: there are none.
    std::function<std::string(const std::string& store)> ticket_key = {};
    // Lets go of features that are kept for later jobs; on the upload lane, while no job is in
    // progress. Absent: there are none.
    std::function<Status(const std::set<Digest>& photos)> forget_features = {};
    size_t jobs_at_once = kMostJobsAtOnce;  // in progress: 1 to kMostJobsAtOnce
    size_t jobs_kept = kKeptJobs;           // of those that are over
    KeptPhotos kept_photos = {};            // that a later job of the same extractor finds here
    uint64_t audit_seed = 0;  // draws photos of which stores' features are compared; drawn itself
    // Of what there is of each photo of a job; it outlives the service.
    std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
  };

  // Goes on with the jobs of the state directory. Throws Error when it cannot be read.
  TunerService(const Setting& setting, TunerIdentity me, Time heartbeat = kHeartbeat,
               uint64_t window = kWindow);

  void remove_done_rows() { records_.remove_done_rows(); }
  bool idle() const { return runner_.idle(); }  // no job is in progress, or put away

  void handle(LinkEvent<wire::FromStore> event) { stores_.handle(std::move(event)); }
  void tick();        // after each round of events, too: it begins the next job
  Time next() const;  // when tick() has something to do

  // What people ask. Throws Error.
  uint64_t submit(const JobSpec& spec, const Notes& notes = {}) {
    queue_.check(spec);
    models_.submitted(spec);
    stores_.write();  // a job waits for those that are known
    return queue_.submit(spec, notes);
  }
  void check(const JobSpec& spec) const { queue_.check(spec); }  // submit() would take it
  StoreChoice stores_for(const JobSpec& spec) const { return queue_.stores_for(spec); }
  JobPlan plan(const JobSpec& spec, const StoreChoice& choice) const {
    return plans_.of(spec, choice);
  }
  void change_notes(uint64_t job, const NotesChange& change) { queue_.change_notes(job, change); }
  void cancel(uint64_t job) { queue_.cancel(job); }
  void pause(uint64_t job) { queue_.pause(job); }
  void resume(uint64_t job, std::string_view changes = "{}") { queue_.resume(job, changes); }
  void start_now(uint64_t job) { queue_.start_now(job); }
  void drain(const std::string& store, bool drained);
  void forget(const std::string& store);
  const StoreRecord* place_upload(const std::string& collection) {
    return uploads_.place(collection);
  }
  void set_tokens(const std::string& json) { stores_.set_tokens(json); }
  using Deletion = PhotoDeletions::Deletion;
  Deletion delete_photos(std::span<const Digest> photos);
  Deletion trash_photos(std::vector<TrashedPhoto> photos) { return trash_.put(std::move(photos)); }
  void restore_photos(std::span<const Digest> photos) { trash_.restore(photos).or_throw(); }
  PublishedModel publish_version(PublishedModel model, bool production) {
    return models_.publish(std::move(model), production);
  }
  void promote(uint64_t version) { models_.promote(version); }
  void set_candidate(uint64_t version) { models_.set_candidate(version); }
  uint64_t rollback(const std::string& task) { return models_.rollback(task); }
  void remove_version(uint64_t version) { models_.remove(version); }
  void remove_task(const std::string& task) { tasks_.remove(task); }
  // Why that would be refused; "": it would not.
  std::string objection_to_removing(const std::string& task) const {
    return tasks_.objection(task);
  }

  const std::map<uint64_t, JobRecord>& jobs() const { return records_.all(); }
  const JobRecord& job(uint64_t id) const { return records_.job(id); }
  std::vector<std::string> log(uint64_t job) const { return records_.log(job); }
  // In progress; null: it is not.
  std::shared_ptr<const ActiveJob> in_progress(uint64_t job) const { return runner_.find(job); }
  std::string doing(uint64_t job) const { return runner_.doing(job); }
  std::optional<JobWait> waits_for_job(uint64_t job) const { return queue_.waits_for(job); }
  std::optional<JobWait> would_wait(const JobSpec& spec) const { return queue_.waits_for(spec); }
  const StoreChoice* waits_for(uint64_t job) const { return runner_.waits_for(job); }
  const PhotoTrash& trash() const { return trash_; }
  // Of the stores that hold it, as far as they have said.
  Result<std::set<std::string>> collections_holding(const Digest& photo) const;
  bool is_deleted(const Digest& photo) const { return deletions_.has(photo); }
  std::vector<StoreRecord> stores() const;
  int64_t room() const;  // bytes that a job's rows may take here where it does not say how many
  JobReport::Counts total_counts() const { return runner_.total_counts(); }
  size_t rows_waiting() const { return runner_.rows_waiting(); }

  // The jobs in progress stop where they can go on after the next start.
  void stop();
  bool stopped() const { return runner_.stopped(); }

 private:
  void arrived(const wire::Hello& hello) override;
  void left(const std::string& store, const std::string& reason) override;
  void message(const std::string& store, wire::FromStore message) override;

  Setting setting_;
  StoreRegistry stores_;
  JobRecords records_;
  PhotoHolders holders_;
  PhotoDeletions deletions_;
  PhotoTrash trash_;
  UploadIngest uploads_;
  ModelDistribution models_;
  JobHistory history_;
  TaskRemoval tasks_;
  JobRunner runner_;
  JobQueue queue_;
  JobPlans plans_{{stores_, holders_, records_, setting_.versions, setting_.kept_photos}};
  PhotoRelay relay_{{stores_, holders_, deletions_, trash_}};
  LinkProbes probes_{{setting_.clock, stores_, [this] { return runner_.idle(); }}};
};

}  // namespace ndtrain::tuner
