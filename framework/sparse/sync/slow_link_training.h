// A training by ranks over slow links: each does its shards of every step, and a SlowLinkSync
// decides what of it travels, and when.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/parallel/rank_trace.h"
#include "framework/parallel/ranked_training.h"
#include "framework/parallel/timed_sync.h"
#include "framework/sparse/sync/slow_link_sync.h"
#include "framework/sparse/sync/state_files.h"
#include "framework/train/epochs.h"
#include "framework/train/trainer.h"

namespace ndtrain {

// With other ranks, shards or options it is another training, which ends at other parameters. A
// rank that is lost is a RankLost of the others: they go on from the last checkpoint, or as
// regrouped_training.h has it.
class SlowLinkTraining final : public RankedTraining {
 public:
  struct Options {
    // Where steps are under way, they are flushed behind so many steps of an epoch, where a
    // training can be stopped, and at its end.
    int64_t drain_every = 100;
    // Ranks compare their parameters behind so many steps, or where they are flushed next, and
    // behind each epoch; where some differ, all throw the same Error. 0: behind epochs alone.
    int64_t verify_every = 0;
    std::vector<double> shares = {};  // of the work, one for each rank; none: equal ones
    std::vector<int> sites = {};      // of each rank, see sites.h; none: each is one by itself
    // Is told what the sync decides of the sizes of steps, behind each step, line by line.
    std::function<void(const std::string& line)> log = {};
    bool trace = false;  // see trace(); the communicator keeps one, too
    // Where checkpoint() keeps the state of this rank, and restore() finds it. Of the last two
    // positions: between writing that of the one and the checkpoint of the other a rank may end.
    // None: a restored training begins without.
    std::optional<StateFiles> files = {};
    // Called where all steps so far are applied in the middle of an epoch, behind every
    // `drain_every` of them.
    std::function<void()> on_drained = {};
    std::function<void(const std::string& line)> warn = {};  // rank 0's; none: the log
  };
  // Rank r of the communicator has shards [first_shards[r], first_shards[r + 1]); `sites` are
  // Options::sites.
  using MakeSync = std::function<std::unique_ptr<SlowLinkSync>(
      const Trainer::Shared& shared, Communicator& communicator, std::vector<int> first_shards,
      std::vector<int> sites)>;

  // As Trainer, of `config.shards` shards, at least one for each of the communicator's members. On
  // a device with memory of its own what is exchanged is staged in the host's (host_staged_sync.h).
  // Throws Error likewise, and as `make_sync` does; in f16
  // where ranks do not share their reports.
  SlowLinkTraining(Model model, std::vector<std::string> trainable, const Device& device,
                   TrainerConfig config, std::unique_ptr<Communicator> communicator,
                   Options options, const MakeSync& make_sync);
  ~SlowLinkTraining() override;

  // False when `on_step` stopped it on some rank: all ranks do one more step, and stop behind the
  // next that is drained. Where that ends an epoch it is true, and false before the next one.
  bool train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step = {}) override;
  Evaluation evaluate(Dataset& data) override { return trainer_->evaluate(data); }
  const Model& model() override { return trainer_->model(); }
  // Collective with Options::files: no rank has a checkpoint before all have kept what goes with
  // it.
  Checkpoint checkpoint() override;
  void restore(const Checkpoint& c) override;
  // What goes with a checkpoint is kept in Options::files.
  bool gathered() const override { return !options_.files || !changed_; }
  void gather() override;

  // Where a training stands on this rank, and all it takes to go on from there in memory.
  struct Kept {
    Checkpoint checkpoint;
    std::map<std::string, Tensor> state;  // SlowLinkSync::state()
    bool lost = false;                    // it is without the state of another life
  };
  Kept keep();  // where all steps are applied
  // Behind a loss in gather(), to which all that are left had come, and so had written: it holds.
  void count_as_gathered();
  // All ranks from the same position, each from its own; by fewer ranks than before, or as many.
  // `file`: of the training that was lost, see last_file().
  void go_on_from(const Kept& kept, std::optional<StateFiles::Position> file = {});
  // That this rank has written of last, or read: a checkpoint may belong to it.
  std::optional<StateFiles::Position> last_file() const { return kept_; }
  // Of a training that has lost a rank, which is of no more use then.
  std::unique_ptr<Communicator> take_communicator();

  int64_t epoch() const override { return trainer_->epoch(); }
  int64_t batch() const override { return trainer_->batch(); }
  void scale_lr(double factor) override { trainer_->scale_lr(factor); }
  void reset_optimizer() override;

  Communicator& communicator() override { return *communicator_; }
  int shards() const override { return trainer_->config().shards; }
  int sites() const { return sites_; }  // of the ranks
  ShardRange own_shards() const override { return own_; }
  const std::vector<TensorType>& row_types() const override { return trainer_->row_types(); }

  Trainer& trainer() { return *trainer_; }
  const SlowLinkSync& sync() const { return *sync_; }
  // At rank 0 what all ranks did in the first steps (rank_trace.h), else empty. Collective; with
  // Options::trace, when flushed.
  std::string trace();
  const ParameterSpace& parameters() const { return *parameters_; }

  // Of this rank, so far.
  struct Figures {
    int64_t steps = 0, left_out = 0, sent_bytes = 0;  // as SlowLinkSync has them
    double exposed_s = 0;
    double step_s = 0;  // of the last whole epoch, without evaluations; 0: there was none
    Telemetry last_step = {};
    std::optional<RatesNow> rates = {};  // of the ranks that there are
    int64_t decisions = 0;               // of batches and drop, that were put in force

    // Those of a training that this one goes on with.
    void add_earlier(const Figures& f);
  };
  Figures figures() const;
  // Of a step, all of them.
  int64_t gradient_bytes() const {
    return trainer_->parameter_count() * static_cast<int64_t>(sizeof(float));
  }

 private:
  std::unique_ptr<GradientSync> traced(std::unique_ptr<SlowLinkSync> sync,
                                       std::span<const ParameterSlot> slots);
  void settle_what_is_lost();
  void take_from_site(std::vector<std::string>& lost_of_ranks);
  void add_counts_of_others();
  void verify(int64_t step);
  StateFiles::Position position() const;

  Options options_;
  ShardRange own_;
  int sites_ = 1;
  std::unique_ptr<Device> host_;  // where exchanges are of a device with memory of its own
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Communicator> communicator_;  // ends first: it uses the Trainer's memory
  const ParameterSpace* parameters_ = nullptr;  // its, in memory of the host
  SlowLinkSync* sync_ = nullptr;                // the Trainer's
  TimedSync* timed_ = nullptr;                  // in front of it; null: nobody wants a trace
  RankTrace trace_;
  std::optional<StateFiles::Position> kept_;  // what was written of last, or read
  bool changed_ = true;                       // since then
  double step_s_ = 0;
  bool stop_asked_ = false;
  bool restored_ = false;  // since it last trained
  bool lost_ = false;      // there was no file of what was restored
  EpochCounts counted_;    // of all ranks, where they do not share their reports
};

}  // namespace ndtrain
