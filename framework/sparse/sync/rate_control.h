// Batches and drop of a training by ranks, as a RateController has them: what each rank measures
// goes to all, and each comes to the same decisions by itself, so that no instruction travels, none
// comes too late, and none comes from a rank that is gone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/sparse/control/rate_controller.h"

namespace ndtrain {

struct RateControlOptions {
  ConvergenceProfile profile;
  std::string model;          // RateControllerOptions::model
  int64_t batch = 0;          // of all ranks at first
  int64_t largest_batch = 0;  // of this rank; 0: what it has memory for
  bool dry_run = false;       // decisions are logged alone
  // Each rank's rows of a step are computed in one run, so that its forward and backward pass have
  // times of their own (StepClock).
  bool passes_apart = false;
  // Ranks come and go: where one site alone is there, that is no Error, but nothing is decided, and
  // steps have the first batch.
  bool one_site_waits = false;
};

// Of one rank; all make the same calls. Keeps a reference. One thread.
class RateControl {
 public:
  // The r-th member has shards [first_shards[r], first_shards[r + 1]). Collective: ranks tell what
  // they have room for, `room` rows here, or RateControlOptions::largest_batch. Throws as
  // RateController does. `sites`: RateControllerOptions::sites; of one, nothing is decided.
  RateControl(const RateControlOptions& options, Communicator& communicator,
              std::vector<int> first_shards, int64_t room, SelectionSizes sizes, double drop,
              uint64_t seed, int sites = 0);

  // A step begins: rows of each shard, of so many that are left in the epoch (BatchSizes).
  std::vector<int64_t> next_sizes(int64_t left);
  // In force in this step: SparseSyncOptions::drop.
  double drop() const { return now_.drop; }

  // These three within a step, in which ranks tell of the one before. In the order of the
  // communicator's operations; when its part is there; and waits.
  void enqueue();
  void tell(Telemetry last);  // all but rank, step, batch and drop
  void take();

  // Null where nothing is decided.
  const RateController* controller() const { return controller_.get(); }
  std::vector<std::string> take_log() {
    return controller_ ? controller_->take_log() : std::vector<std::string>();
  }
  int64_t decisions() const { return decisions_; }  // in all

 private:
  Communicator& communicator_;
  const RankGroup members_;
  const std::vector<int> first_shards_;
  const size_t place_;  // of this rank among the members
  std::unique_ptr<RateController> controller_;
  std::unique_ptr<RateSchedule> schedule_;
  RateInstruction now_, before_;        // of this step and the last
  int64_t rows_ = 0, rows_before_ = 0;  // of this rank in these
  int64_t step_ = -1;                   // that has begun, of this object
  int64_t decisions_ = 0;
  std::vector<float> told_;  // of each member
  Communicator::Op op_ = 0;
};

}  // namespace ndtrain
