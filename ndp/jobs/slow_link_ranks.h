// A training by ranks over slow links in a job: what they have to agree on, and what is said of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/comm/fingerprint.h"
#include "framework/sparse/sync/regrouped_training.h"
#include "ndp/jobs/progress.h"
#include "ndp/jobs/slow_link_method.h"
#include "ndp/jobs/transfer.h"

namespace ndtrain::ndp {

// What they are asked for.
struct SlowLinkConfig {
  SlowLinkMethod method;
  int64_t verify_every = 0;         // see SlowLinkTraining
  std::vector<double> shares = {};  // of the work, see SlowLinkTraining
  std::vector<int> sites = {};      // of each rank, see SlowLinkTraining
  bool regroup = false;             // where some are lost, as RegroupedTraining does
  std::string trace = {};           // the file for a Chrome trace; "": none
  // Where this rank keeps its state, also when it is not rank 0.
  std::string directory = {};
};

// All ranks make the same calls. One thread.
class SlowLinkRanks {
 public:
  // Keeps the references. Throws Error as SlowLinkTraining does.
  SlowLinkRanks(const TransferModel& model, const Device& device, const TrainerConfig& trainer,
                SlowLinkConfig config, std::unique_ptr<Communicator> ranks, Fs& fs,
                Progress& progress);

  RankedTraining& training();
  int64_t parameters() const;  // that are trained

  // Throws the same Error on all ranks where one differs in these, what is sent how among them.
  void agree(const Fingerprint& decisive);

  struct Figures {
    double exposed_s = 0;            // waiting for other ranks, in all
    double step_s = 0;               // of the last epoch; 0: not known
    double step_sent_bytes = 0;      // of gradients by a rank to each other, mean of the steps
    double step_gradient_bytes = 0;  // that all of them are
    int64_t left_out = 0;            // steps, for gradients that were not finite
  };
  // Of this rank, after the training; rank 0 says it, and writes the trace. Collective with one.
  Figures describe();
  // So that no rank misses one that was faster.
  void leave_together();

 private:
  void begin(const TransferModel& model, const Device& device, const TrainerConfig& trainer,
             std::unique_ptr<Communicator> ranks, SlowLinkTraining::Options options);
  SlowLinkTraining& now();
  const SlowLinkTraining& now() const;
  void say_what_is_done();
  void say_loss(const RegroupedTraining::Loss& loss);
  void write_trace();

  const SlowLinkConfig config_;
  Fs& fs_;
  Progress& progress_;
  std::unique_ptr<SlowLinkTraining> all_or_none_;
  std::unique_ptr<RegroupedTraining> regrouped_;  // or this
};

}  // namespace ndtrain::ndp
