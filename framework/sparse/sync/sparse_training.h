// A training by ranks over slow links: each does its shards of every step and sends a few elements
// of its gradients (sparse_sync.h); all of them have the same parameters.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/parallel/ranked_training.h"
#include "framework/sparse/sync/sparse_sync.h"
#include "framework/sparse/sync/state_files.h"
#include "framework/train/trainer.h"

namespace ndtrain {

// With other ranks, shards or options it is another training, which ends at other parameters. A
// rank that is lost is a RankLost of the others: they go on from the last checkpoint.
class SparseTraining final : public RankedTraining {
 public:
  struct Options {
    SparseSyncOptions sync = {};
    // With a staleness: all that is under way is applied behind so many steps of an epoch, where a
    // training can be stopped, and at its end.
    int64_t drain_every = 100;
    std::vector<double> shares = {};  // of the work, one for each rank; none: equal ones
    // Where checkpoint() keeps what this rank has not sent yet, and restore() finds it. Of the last
    // two positions: between writing that of the one and the checkpoint of the other a rank may
    // end. None: a restored training begins with nothing left to send.
    std::optional<StateFiles> files = {};
  };

  // As Trainer, of `config.shards` shards, at least one for each rank. Throws Error likewise, and
  // as SparseSync does.
  SparseTraining(Model model, std::vector<std::string> trainable, const Device& device,
                 TrainerConfig config, std::unique_ptr<Communicator> communicator, Options options);
  ~SparseTraining() override;

  // False when `on_step` stopped it on some rank: all ranks do one more step, and stop behind the
  // next that is drained.
  bool train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step = {}) override;
  Evaluation evaluate(Dataset& data) override { return trainer_->evaluate(data); }
  const Model& model() override { return trainer_->model(); }
  // Collective with Options::files: no rank has a checkpoint before all have kept what goes with
  // it.
  Checkpoint checkpoint() override;
  void restore(const Checkpoint& c) override;
  int64_t epoch() const override { return trainer_->epoch(); }
  int64_t batch() const override { return trainer_->batch(); }
  void scale_lr(double factor) override { trainer_->scale_lr(factor); }
  void reset_optimizer() override;

  Communicator& communicator() override { return *communicator_; }
  int shards() const override { return trainer_->config().shards; }
  ShardRange own_shards() const override { return own_; }
  const std::vector<TensorType>& row_types() const override { return trainer_->row_types(); }

  Trainer& trainer() { return *trainer_; }
  const SparseSync& sync() const { return *sync_; }
  // Of the last whole epoch here, without what an evaluation takes; 0: there was none.
  double step_s() const { return step_s_; }

 private:
  void say_what_is_lost();

  Options options_;
  ShardRange own_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Communicator> communicator_;  // ends first: it uses the Trainer's memory
  SparseSync* sync_ = nullptr;                  // the Trainer's
  std::optional<StateFiles::Position> kept_;    // what was written of last, or read
  bool changed_ = true;                         // since then
  double step_s_ = 0;
  bool stop_asked_ = false;
  bool restored_ = false;  // since it last trained
  bool lost_ = false;      // there was no file of what was restored
};

}  // namespace ndtrain
