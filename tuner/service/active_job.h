// A job in progress. Tasks on the lanes hold on to it, longer than it may be in progress. One
// thread, the service's; a task has what was moved or copied to it, `work` and `progress`.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/lanes.h"
#include "ndp/engine/energy.h"
#include "tuner/ingest/mixed_numerics.h"
#include "tuner/ingest/row_ingest.h"
#include "tuner/jobs/job_files.h"
#include "tuner/jobs/job_progress.h"
#include "tuner/jobs/job_report.h"
#include "tuner/jobs/job_work.h"
#include "tuner/service/service_lanes.h"
#include "tuner/service/store_registry.h"
#include "tuner/service/store_wait.h"

namespace ndtrain::tuner {
using namespace ndp;

// A job that is queued, paused or over has none.
enum class JobPhase {
  kPreparing,  // its work says what is asked; there is no ingest yet
  kWaiting,    // for stores to say what they hold
  kOpening,    // the manifest is settled; the sink opens
  kRunning,    // the sink takes rows, and runs are worked on
};

struct ActiveJob {
  ActiveJob(const JobRecord& record, size_t s, std::shared_ptr<NumericsSamples> samples)
      : id(record.id), spec(record.spec), slot(s), numerics(std::move(samples)) {}

  const uint64_t id;
  const JobSpec spec;
  const size_t slot;  // whose lanes it has
  size_t tasks = 0;   // on these, or waiting for this thread; they hold its files
  bool over = false;  // it is in progress no more
  JobPhase phase = JobPhase::kPreparing;
  JobProgress progress;
  JobReport report;
  std::optional<EnergyMeter> energy;
  std::unique_ptr<JobWork> work;
  std::unique_ptr<RowIngest> ingest;

  size_t keep_lane() const { return tuner::keep_lane(slot); }
  size_t job_lane() const { return tuner::job_lane(slot); }
  bool keeping = false;  // a task of the keep lane is out
  bool working = false;  // one of the job lane
  bool& busy(size_t lane) { return lane == keep_lane() ? keeping : working; }
  std::string away = {};  // why, where rows are kept cannot be reached; then, to be made again:
  std::function<Continuation()> again = {};
  size_t again_lane = 0;
  std::chrono::nanoseconds again_at{0};

  StoreWait wait;                                 // in kWaiting
  std::chrono::nanoseconds choose_at{0};          // while stores list their photos
  MixedNumerics numerics;                         // of its stores
  std::map<std::string, uint64_t> asked;          // stores here: the serial of the last Job
  std::string records = {};                       // RowRequest's
  bool local = false;                             // no store has a part in it
  std::vector<RowIngest::Inventory> inventories;  // for the sink
  std::vector<RowIngest::Rows> rows;
  bool introduced = false;        // the work has the manifest
  std::deque<uint32_t> complete;  // runs that wait for the job lane
  uint32_t runs = 0;
  size_t row_bytes = 0;

  bool has_part(const StoreRecord& store) const {
    return ingest && !local && !store.drained && store.collection == spec.collection &&
           spec.stores.includes(store.name);
  }
};
using ActivePtr = std::shared_ptr<ActiveJob>;

}  // namespace ndtrain::tuner
