// A training by ranks in a job: what they have to agree on, and what is said and kept of it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/comm/fingerprint.h"
#include "framework/core/clock.h"
#include "framework/parallel/data_parallel.h"
#include "ndp/jobs/progress.h"
#include "ndp/jobs/run_directory.h"
#include "ndp/jobs/transfer.h"

namespace ndtrain::ndp {

// What ranks are asked for.
struct RankConfig {
  std::string sync = "ddp";         // the schedule, see make_comm_plan()
  int64_t bucket_bytes = 0;         // of ddp and dear; 0: their own
  bool tune_buckets = false;        // look for the best one instead
  std::string trace = {};           // the file for a Chrome trace; "": none
  std::vector<double> shares = {};  // of the work, see DataParallel
  bool measure_shares = false;      // instead
  ExchangeOptions exchange = {};    // of a breakdown no model is written
  bool regroup = false;             // where some are lost, see DataParallel
  bool one_cache = false;           // of all ranks: rank 0 fills it, then the others read it

  bool is_breakdown() const { return exchange.only != Breakdown::kWhole; }
};

// All ranks make the same calls. One thread.
class RankTraining {
 public:
  struct Place {
    Fs& fs;
    Clock& clock;
    Progress& progress;
    RunDirectory& run;
    std::function<Checkpoint()> saved;  // of rank 0, see DataParallel
  };
  // Keeps the references. Throws Error as DataParallel does.
  RankTraining(const TransferModel& model, const Device& device, const TrainerConfig& trainer,
               RankConfig config, std::unique_ptr<Communicator> ranks, const Place& place);

  DataParallel& training() { return *training_; }

  // Throws the same Error on all ranks where one differs in these or in what is exchanged how.
  void agree(const Fingerprint& decisive);

  // What steps have taken, after the training; none where a rank is lost meanwhile. At rank 0 it is
  // said, and kept in the run directory; so is the trace.
  std::optional<ExchangeReport> describe_exchange();
  // So that no rank misses one that was faster. Who has left already has come as far as this one.
  void leave_together();

 private:
  PlanTuner::Options tuning();
  void say_what_is_exchanged();
  void keep_exchange(const ExchangeReport& report);

  const RankConfig config_;
  const Place place_;
  std::unique_ptr<DataParallel> training_;
  bool exchange_kept_ = false;
};

// What rank 0 has of a run that is resumed is laid into each other rank's directory. Collective.
void share_run(Communicator& ranks, Fs& fs, const std::string& out);

}  // namespace ndtrain::ndp
