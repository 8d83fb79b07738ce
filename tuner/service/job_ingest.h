// The rows of the jobs in progress on their way in: the stores of each are asked what they hold, it
// waits for those that are not ready, they are asked for rows, and a sink keeps these. Jobs share
// stores, but not one of an earlier program, which makes rows for one job at a time. One thread,
// the service's; a sink is on its job's keep lane.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/lanes.h"
#include "ndp/http/audit.h"
#include "tuner/jobs/job_records.h"
#include "tuner/service/active_job.h"
#include "tuner/service/photo_holders.h"
#include "tuner/service/photo_trash.h"
#include "tuner/service/store_registry.h"

namespace ndtrain::tuner {
using namespace ndp;

// What the ingest asks of who runs jobs. A job that is over is left alone.
class JobControl {
 public:
  virtual std::vector<ActivePtr> in_progress() const = 0;  // in the order in which they began
  // Runs `f` on a lane; what it throws fails the job.
  virtual void start(const ActivePtr& job, size_t lane, std::function<Continuation()> f) = 0;
  virtual void work_on_runs(const ActivePtr& job) = 0;
  virtual void fail(const ActivePtr& job, const std::string& why) = 0;
  // Something failed that may be for want of room: then it waits for that, else it fails.
  virtual void fail_or_wait(const ActivePtr& job, const std::string& why) = 0;

 protected:
  ~JobControl() = default;
};

class JobIngest {
 public:
  using Time = StoreRegistry::Time;
  // Between two looks at whether the stores that a job waits for are here.
  static constexpr Time kLook = std::chrono::seconds(1);

  struct Ports {
    Clock& clock;
    JobRecords& records;
    StoreRegistry& stores;
    PhotoHolders& holders;
    const PhotoTrash& trash;
    JobControl& control;
    AuditLog* audit = nullptr;  // of stores that are drained since their features are wrong
    uint64_t audit_seed = 0;    // of FeatureAudit; stores do not know it
    std::pmr::memory_resource* memory = std::pmr::new_delete_resource();  // as ManifestRules has it
  };
  explicit JobIngest(const Ports& ports) : ports_(ports) {}

  void begin(const ActivePtr& job, const RowRequest& request);
  void choose(const ActivePtr& job);  // whether it waits for stores any more
  // What nobody could read, as was said to earlier lives of the process too.
  Status keep_quarantine(const ActivePtr& job);
  void over(const ActivePtr& job);  // stores that it had alone are asked for the next one

  // Of a store's session.
  void arrive(const std::string& store);
  void left(const std::string& store, const std::string& reason);
  void drained(const std::string& store);  // or no more
  // It has photos that another store had, for the time so many; where that is news, it is asked
  // again.
  void gained(const std::string& store, uint64_t times);
  void message(const std::string& store, wire::FromStore message);

  void tick();
  Time next() const;  // when tick() has something to do; Time::max() for never

 private:
  Time now() const { return ports_.clock.monotonic(); }
  void arrive(const ActivePtr& job, const std::string& store);
  bool may_choose(const ActivePtr& job) const;
  std::string admit(const ActivePtr& job, const RowIngest::Inventory& inventory);
  void open_sink(const ActivePtr& job);
  void distrust(uint64_t job, const RowIngest::WrongRows& wrong);
  void sink_opened(const ActivePtr& job, const std::vector<uint64_t>& durable);
  void send(const ActivePtr& job, const std::string& store, wire::ToStore message);
  void apply(const ActivePtr& job, const std::string& store, RowIngest::Actions actions);
  Status close_run(const ActivePtr& job, uint32_t run);
  void keep_rows(const ActivePtr& job);

  const Ports ports_;
  std::map<std::string, uint64_t> serials_;  // of each store: the last Job's, of any job
  std::map<std::string, uint64_t> gained_;   // of stores that are here, as they said last
};

}  // namespace ndtrain::tuner
