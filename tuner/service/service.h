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
#include "ndp/wire/grpc_link.h"
#include "ndp/wire/protocol.h"
#include "ndp/wire/state_directory.h"
#include "ndp/wire/tuner_sessions.h"
#include "tuner/intake/intake.h"
#include "tuner/intake/mixed_numerics.h"
#include "tuner/jobs/job_files.h"
#include "tuner/jobs/job_progress.h"
#include "tuner/jobs/job_report.h"
#include "tuner/jobs/job_work.h"
#include "tuner/models/model_store.h"
#include "tuner/models/model_ways.h"
#include "tuner/models/versions.h"
#include "tuner/service/known_stores.h"
#include "tuner/service/photo_holders.h"
#include "tuner/service/tombstones.h"
#include "tuner/service/upload_queues.h"
#include "tuner/service/uploaded_labels.h"

namespace ndtrain {

struct StoreRecord {
  std::string name, numerics, version;  // version: of the program
  uint64_t photos = 0;
  bool here = false, drained = false;
  uint64_t version_in_force = 0;
  uint64_t model_bytes = 0;  // of models and deltas, sent to it by this process
  int64_t last_seen = 0;     // Unix seconds; of one that is here, when it was last heard
  // How long it has been away or drained, as of `counted`; of what was before this process began
  // nothing.
  std::chrono::nanoseconds away{0}, counted{0};
  bool takes_tokens = false, takes_tickets = false;
  std::string http;          // where people may upload to it; "": nowhere
  std::string http_refused;  // where it says that they may, and is not believed
  uint64_t free = 0;         // bytes, for uploads
  uint64_t deletions = 0;    // photos it has let go of; `deletions_due`: still has to
  uint64_t deletions_due = 0;
};

class TunerService {
 public:
  using Time = TunerSessions::Time;
  // Lanes that the service uses.
  static constexpr size_t kKeepLane = 0, kJobLane = 1, kDeltaLane = 2, kUploadLane = 3, kLanes = 4;
  // Rows that a sink is given at once, but for a message that has more: what comes while it makes
  // them durable must not be so much that the stores then wait for it.
  static constexpr size_t kKeptAtOnce = 50'000;
  // Of which the files are kept, besides those that are needed.
  static constexpr size_t kKeptVersions = 24;
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
  void remove_done_rows();

  void handle(LinkEvent<wire::FromStore> event);
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
  const StoreRecord* place_upload();

  // Who may ask for what (ndp/http/tokens.h): stores go by it too, while the Tuner is away as well.
  void set_tokens(const std::string& json);

  // Photos are removed wherever they are, with all that was made of them, and not taken in again;
  // by stores that are away when they are back. Durable on return; the rest follows.
  struct Deletion {
    std::vector<std::string> told, away;  // stores
  };
  Deletion delete_photos(std::span<const Digest> photos);

  // A model becomes the next version, the candidate, and what is in force if it is to be; once for
  // each job. Its files are in the ModelStore.
  PublishedModel publish_version(PublishedModel model, bool production);
  void promote(uint64_t version);  // it is in force from now on
  void set_candidate(uint64_t version);
  uint64_t rollback();                    // to what was in force before; which that is
  void remove_version(uint64_t version);  // not one that an alias or a store that is here needs

  const std::map<uint64_t, JobRecord>& jobs() const { return jobs_; }
  const JobRecord& job(uint64_t id) const;
  const std::vector<std::string>& log(uint64_t job) const;  // lines of this process's life
  std::string doing() const;                                // of the job in progress
  const StoreChoice* waits_for(uint64_t job) const;         // null: for nobody
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
  static JobRecord unreadable(uint64_t job, const Status& why);
  JobFiles files(uint64_t job) const;
  JobFiles records(const ActivePtr& job) const;
  void save(const JobRecord& record);
  void note(uint64_t job, const std::string& text);
  void take_lines();

  // sessions
  void apply(TunerSessions::Actions actions);
  void arrived(const wire::Hello& hello);
  void send_tokens(const StoreRecord& store);
  void left(const std::string& store, const std::string& reason);
  void deliver(const std::string& store, wire::FromStore message);
  void send(const std::string& store, wire::ToStore message);

  // models (service_models.cpp)
  struct ModelAsk {
    std::string store;  // "": nobody waits for it
    LinkId link = 0;
    wire::ModelWanted wanted;
    std::optional<ModelPair> pair;  // a delta to be made before it is answered
  };
  void model_wanted(const std::string& store, const wire::ModelWanted& wanted);
  void answer_asks();
  void answer(const ModelAsk& ask);
  void send_parts(const std::string& store, const wire::ModelWanted& wanted);
  void count_model_bytes(const std::string& store, uint64_t bytes);
  void publish_to(const std::string& store);
  void take_uploads(const std::string& store, const wire::Uploads& message);
  void pump_uploads();
  std::vector<JobFiles> earlier_records();
  void judge_uploads(const std::map<Digest, std::set<std::string>>& recorded);
  AuditLine audit_of(const std::string& store, const wire::Upload& line) const;
  void keep_uploads();
  void uploads_failed(const Status& status);
  void uploads_kept();
  void take_space(const std::string& store, const wire::Space& space);

  // deletions (service_deletions.cpp)
  struct Told {
    uint64_t count = 0;
    bool understands = false;
  };
  Status bury(std::span<const Digest> photos);
  void greet_with_deletions(const wire::Hello& hello);
  void tell_deletions(const std::string& store);
  void pump_deletions();
  void forgotten(uint64_t count, bool whole, Status status);

  void publish_to_all();
  void now_in_force(const PublishedModel& model);
  void collect_versions();

  // stores (service_stores.cpp)
  void check_stores(const JobSpec& spec) const;
  void know_stores();
  void keep_known(const StoreRecord& store);
  void count_absence();
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
  void record_promotion(uint64_t job);
  void leave(ActivePtr job);
  void put_away(uint64_t job, JobState state);
  void finished(const ActivePtr& job, const JobOutcome& outcome);
  std::string why_it_waits(uint64_t job, const JobOutcome& outcome);
  bool current(const ActivePtr& job) const { return job == active_; }
  // Runs `f` on a lane; what it throws fails the job.
  void start(const ActivePtr& job, size_t lane, std::function<Continuation()> f);

  Setting setting_;
  TunerSessions sessions_;
  std::map<std::string, StoreRecord> stores_;
  KnownStores known_;
  std::set<uint64_t> start_now_;           // jobs that wait for no store
  std::map<std::string, uint64_t> asked_;  // of each store: the serial of its last Job
  std::map<uint64_t, JobRecord> jobs_;
  std::map<uint64_t, std::vector<std::string>> logs_;
  ActivePtr active_;
  MixedNumerics numerics_;  // of its stores
  ModelWays ways_;
  std::deque<ModelAsk> asks_;  // in order
  bool making_ = false;        // the first one's delta
  bool collect_ = false;       // versions, once no job needs any
  JobReport::Counts past_;     // of jobs that have ended
  size_t tasks_ = 0;           // on the lanes, or waiting for this thread
  bool stopping_ = false;
  std::string tokens_;  // "": none were made

  UploadQueues uploads_;                   // not durable yet
  std::set<std::string> waiting_uploads_;  // of these stores: the last attempt failed
  PhotoHolders holders_;
  bool recalled_ = false;  // what jobs of an earlier process know of them

  Tombstones deletions_;
  std::map<std::string, Told> told_;  // of the stores' sessions
  uint64_t labels_forgotten_ = 0;     // of deletions_; by this process
  bool forgetting_ = false;           // a task is out
  Time forget_at_{0};                 // not 0: the last attempt failed
};

}  // namespace ndtrain
