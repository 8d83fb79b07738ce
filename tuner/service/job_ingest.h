// The rows of the job in progress on their way in: its stores are asked what they hold, it waits
// for those that are not ready, they are asked for rows, and a sink keeps these. One thread, the
// service's; the sink is on the keep lane.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/lanes.h"
#include "tuner/ingest/mixed_numerics.h"
#include "tuner/jobs/job_records.h"
#include "tuner/service/active_job.h"
#include "tuner/service/photo_holders.h"
#include "tuner/service/photo_trash.h"
#include "tuner/service/store_registry.h"

namespace ndtrain::tuner {
using namespace ndp;

// What the ingest asks of who runs the job. A job that is not in progress any more is left alone.
class JobControl {
 public:
  virtual const ActivePtr& active() const = 0;  // null: none is in progress
  // Runs `f` on a lane; what it throws fails the job.
  virtual void start(const ActivePtr& job, size_t lane, std::function<Continuation()> f) = 0;
  virtual void work_on_runs(const ActivePtr& job) = 0;
  virtual void fail(const ActivePtr& job, const std::string& why) = 0;

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
  };
  explicit JobIngest(const Ports& ports) : ports_(ports) {}

  void begin(const ActivePtr& job, const RowRequest& request);
  void choose();  // whether the job in progress waits for stores any more

  // Of a store's session.
  void arrive(const std::string& store);
  void left(const std::string& store, const std::string& reason);
  void drained(const std::string& store);  // or no more
  void message(const std::string& store, wire::FromStore message);

  void tick();
  Time next() const;  // when tick() has something to do; Time::max() for never

 private:
  Time now() const { return ports_.clock.monotonic(); }
  const ActivePtr& active() const { return ports_.control.active(); }
  std::string admit(const ActivePtr& job, const RowIngest::Inventory& inventory);
  void open_sink(const ActivePtr& job);
  void sink_opened(const ActivePtr& job, const std::vector<uint64_t>& durable);
  // By value: a job that ends is not active() any more, which may be what was passed.
  void apply(ActivePtr job, const std::string& store, RowIngest::Actions actions);
  Status close_run(const ActivePtr& job, uint32_t run);
  void keep_rows(const ActivePtr& job);

  const Ports ports_;
  MixedNumerics numerics_;                 // of its stores
  std::map<std::string, uint64_t> asked_;  // of each store: the serial of its last Job
};

}  // namespace ndtrain::tuner
