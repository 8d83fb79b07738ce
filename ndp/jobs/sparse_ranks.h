// A training by ranks that send some of their gradients, in a job: what they have to agree on, and
// what is said of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/comm/fingerprint.h"
#include "framework/sparse/sync/sparse_training.h"
#include "ndp/jobs/progress.h"
#include "ndp/jobs/transfer.h"

namespace ndtrain::ndp {

// What they are asked for.
struct SparseConfig {
  SparseSyncOptions sync = {};
  int64_t drain_every = SparseTraining::Options{}.drain_every;
  std::vector<double> shares = {};  // of the work, see SparseTraining
  // Where this rank keeps what it has not sent yet, also when it is not rank 0.
  std::string directory = {};
};

// All ranks make the same calls. One thread.
class SparseRanks {
 public:
  // Keeps the references. Throws Error as SparseTraining does.
  SparseRanks(const TransferModel& model, const Device& device, const TrainerConfig& trainer,
              SparseConfig config, std::unique_ptr<Communicator> ranks, Fs& fs, Progress& progress);

  SparseTraining& training() { return *training_; }

  // Throws the same Error on all ranks where one differs in these, what is sent how among them.
  void agree(const Fingerprint& decisive);
  // The same where ranks other than 0 have waited until there is a cache to read.
  void agree_on_one_cache(const Fingerprint& decisive);

  struct Figures {
    double exposed_s = 0;            // waiting for other ranks, in all
    double step_s = 0;               // of the last epoch; 0: not known
    double step_sent_bytes = 0;      // of gradients by a rank to each other, mean of the steps
    double step_gradient_bytes = 0;  // that all of them are
    int64_t left_out = 0;            // steps, for gradients that were not finite
  };
  // Of this rank, after the training; rank 0 says it.
  Figures describe();
  // So that no rank misses one that was faster.
  void leave_together();

 private:
  double gradient_bytes() const;

  const SparseConfig config_;
  Progress& progress_;
  std::unique_ptr<SparseTraining> training_;
};

}  // namespace ndtrain::ndp
