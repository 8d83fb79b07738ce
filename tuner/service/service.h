// The Tuner: its sessions with PipeStores, its jobs one after the other, the versions it has
// published. A state machine over injected files, clock, links and lanes, so that a simulator can
// drive it; one thread owns it. Everything that must outlive the process is in the state directory
// before anybody hears of it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/lanes.h"
#include "ndp/engine/energy.h"
#include "ndp/http/audit.h"
#include "ndp/wire/protocol.h"
#include "ndp/wire/state_directory.h"
#include "ndp/wire/tuner_sessions.h"
#include "tuner/intake/intake.h"
#include "tuner/intake/mixed_numerics.h"
#include "tuner/jobs/job_files.h"
#include "tuner/jobs/job_progress.h"
#include "tuner/jobs/job_records.h"
#include "tuner/jobs/job_report.h"
#include "tuner/jobs/job_work.h"
#include "tuner/models/model_store.h"
#include "tuner/models/versions.h"
#include "tuner/service/model_distribution.h"
#include "tuner/service/photo_deletions.h"
#include "tuner/service/photo_holders.h"
#include "tuner/service/service_lanes.h"
#include "tuner/service/store_registry.h"
#include "tuner/service/upload_ingest.h"
#include "tuner/service/uploaded_labels.h"

namespace ndtrain {

class TunerService final : StoreEvents {
 public:
  using Time = StoreRegistry::Time;
  // Lanes that the service uses, from 0.
  static constexpr size_t kLanes = kServiceLanes;
  // Rows that a sink is given at once, but for a message that has more: what comes while it makes
  // them durable must not be so much that the stores then wait for it.
  static constexpr size_t kKeptAtOnce = 50'000;
  static constexpr size_t kKeptVersions = ModelDistribution::kKeptVersions;
  // Between two looks at whether the stores that a job waits for are here.
  static constexpr Time kLook = std::chrono::seconds(1);

  struct Setting {
    Fs& fs;
    Clock& clock;
    StateDirectory& state;
    LinkServer& links;
    Lanes& lanes;
    JobWorks& works;
    ModelStore& models;
    Versions& versions;
    UploadKeeper* uploads = nullptr;
    AuditLog* audit = nullptr;  // of versions that jobs put in force, and of what stores say
    // By which a store knows the Tuner's tickets (ndp/http/tickets.h); absent: there are none.
    std::function<std::string(const std::string& store)> ticket_key = {};
  };

  // Goes on with the jobs of the state directory. Throws Error when it cannot be read.
  TunerService(const Setting& setting, TunerIdentity me, Time heartbeat = kHeartbeat,
               uint64_t window = kWindow);

  // Rows of jobs that ended just before the Tuner was killed. Once, at the start.
  void remove_done_rows() { records_.remove_done_rows(); }

  void handle(LinkEvent<wire::FromStore> event) { stores_.handle(std::move(event)); }
  void tick();        // after each round of events, too: it begins the next job
  Time next() const;  // when tick() has something to do

  // What people ask. Throws Error.
  uint64_t submit(const JobSpec& spec);
  void cancel(uint64_t job);
  // The stores stop with it, nothing is held for it, others may go before it; until it is resumed.
  void pause(uint64_t job);
  // A paused, failed or cancelled one, from where it was; with `changes`: see changed(). Its stores
  // are settled once they have said what they hold.
  void resume(uint64_t job, std::string_view changes = "{}");
  // One that waits for stores begins without those that are not ready, once any is; one that has
  // not begun to wait will not. See choose_stores().
  void start_now(uint64_t job);
  void drain(const std::string& store, bool drained);  // until it is said again, or forgotten
  void forget(const std::string& store);
  // A store that is here, takes uploads and has the most room; null when there is none.
  const StoreRecord* place_upload() { return uploads_.place(); }

  // See StoreRegistry.
  void set_tokens(const std::string& json) { stores_.set_tokens(json); }

  // See PhotoDeletions::remove().
  using Deletion = PhotoDeletions::Deletion;
  Deletion delete_photos(std::span<const Digest> photos) { return deletions_.remove(photos); }

  // See ModelDistribution.
  PublishedModel publish_version(PublishedModel model, bool production) {
    return models_.publish(std::move(model), production);
  }
  void promote(uint64_t version) { models_.promote(version); }
  void set_candidate(uint64_t version) { models_.set_candidate(version); }
  uint64_t rollback() { return models_.rollback(); }
  void remove_version(uint64_t version) { models_.remove(version); }

  const std::map<uint64_t, JobRecord>& jobs() const { return records_.all(); }
  const JobRecord& job(uint64_t id) const { return records_.job(id); }
  // Lines of this process's life.
  const std::vector<std::string>& log(uint64_t job) const { return records_.log(job); }
  std::string doing() const;                         // of the job in progress
  const StoreChoice* waits_for(uint64_t job) const;  // null: for nobody
  std::vector<StoreRecord> stores() const;
  int64_t room() const;  // bytes that a job's rows may take here where it does not say how many
  JobReport::Counts counts() const;        // of the job in progress
  JobReport::Counts total_counts() const;  // since this process began

  // The job in progress stops where it can go on after the next start.
  void stop();
  bool stopped() const { return stopping_ && !active_; }

 private:
  // The job in progress. Tasks hold on to it. What may end it takes it by value: active_ changes.
  struct Active {
    uint64_t id = 0;
    JobProgress progress;
    JobReport report;
    std::optional<EnergyMeter> energy;
    std::unique_ptr<JobWork> work;
    std::unique_ptr<Intake> intake;
    bool open = false;     // the sink takes rows
    bool keeping = false;  // a task of the keep lane is out
    bool working = false;  // one of the job lane
    bool& busy(size_t lane) { return lane == kKeepLane ? keeping : working; }
    bool away = false;  // where rows are kept; then, to be made again:
    std::function<Continuation()> again = {};
    size_t again_lane = kKeepLane;
    Time again_at{0};
    bool introduced = false;                     // the work has the manifest
    std::vector<Intake::Inventory> inventories;  // for the sink
    std::vector<Intake::Rows> rows;
    std::deque<uint32_t> complete;  // runs that wait for the job lane
    uint32_t runs = 0;
    size_t row_bytes = 0;
    bool local = false;         // no store has a part in it
    StoreChoice choice;         // while it waits for stores
    std::string said, said_of;  // of whom it waits for; when to say it again
    Time say_at{0}, waits_since{0};
    std::string records;  // JobQuestion's
  };
  using ActivePtr = std::shared_ptr<Active>;

  Time now() const { return setting_.clock.monotonic(); }
  bool idle() const { return !active_ && tasks_ == 0; }
  JobFiles records(const ActivePtr& job) const;
  void take_lines();

  void arrived(const wire::Hello& hello) override;
  void left(const std::string& store, const std::string& reason) override;
  void message(const std::string& store, wire::FromStore message) override;

  void model_bytes_sent(uint64_t bytes);

  // stores (service_stores.cpp)
  void check_stores(const JobSpec& spec) const;
  std::vector<StoreStanding> standing(const Active& job) const;
  bool has_part(const Active& job, const StoreRecord& store) const;
  void choose();
  void say_waits(const ActivePtr& job, const std::string& whom);
  struct LeftOut {
    std::string json = "{}";  // for the result of a job
    std::string text = {};    // for people; "": nothing was
  };
  LeftOut left_out(const Active& job) const;

  // the job in progress
  void start_next();
  void begin_intake(const ActivePtr& job, const JobQuestion& question);
  std::string admit(const ActivePtr& job, const Intake::Inventory& inventory);
  void compare_with_photos(const ActivePtr& job);
  void open_sink(const ActivePtr& job);
  void sink_opened(const ActivePtr& job, const std::vector<uint64_t>& durable);
  // By value: a job that ends leaves active_, which may be what was passed.
  void apply(ActivePtr job, const std::string& store, Intake::Actions actions);
  Status close_run(const ActivePtr& job, uint32_t run);
  void pump_keep(const ActivePtr& job);
  void pump_work(const ActivePtr& job);
  void sink_away(const ActivePtr& job, size_t lane, const std::function<Continuation()>& f,
                 const std::string& why);
  void ask_again();
  void end(ActivePtr job, JobState state, const std::string& message);
  void leave(ActivePtr job);
  void put_away(uint64_t job, JobState state);
  void finished(const ActivePtr& job, const JobOutcome& outcome);
  std::string why_it_waits(uint64_t job, const JobOutcome& outcome);
  bool current(const ActivePtr& job) const { return job == active_; }
  // Runs `f` on a lane; what it throws fails the job.
  void start(const ActivePtr& job, size_t lane, std::function<Continuation()> f);

  Setting setting_;
  StoreRegistry stores_;
  JobRecords records_;
  PhotoHolders holders_;
  PhotoDeletions deletions_;
  UploadIngest uploads_;
  ModelDistribution models_;
  std::set<uint64_t> start_now_;           // jobs that wait for no store
  std::map<std::string, uint64_t> asked_;  // of each store: the serial of its last Job
  ActivePtr active_;
  MixedNumerics numerics_;  // of its stores
  JobReport::Counts past_;  // of jobs that have ended
  size_t tasks_ = 0;        // on the lanes, or waiting for this thread
  bool stopping_ = false;
};

}  // namespace ndtrain
