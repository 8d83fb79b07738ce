// A training by ranks: each does its shards of every step, and all of them end up with the same
// parameters, which are those of one rank that does all the shards.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/parallel/comm_plan.h"
#include "framework/parallel/exchange_sync.h"
#include "framework/parallel/plan_tuner.h"
#include "framework/parallel/rank_trace.h"
#include "framework/parallel/ranked_training.h"
#include "framework/parallel/share_tuner.h"
#include "framework/parallel/step_undo.h"
#include "framework/train/trainer.h"

namespace ndtrain {

class DataParallel final : public RankedTraining {
 public:
  // For parameters laid out so, in the order in which their gradients are complete; the same on
  // all ranks.
  using MakePlan = std::function<CommPlan(const ParameterSpace& parameters)>;
  struct Options {
    MakePlan plan;                    // of the first steps
    std::vector<double> shares = {};  // of the work, one for each rank; none: equal ones
    // Equal ones at first, and then as the ranks are fast (share_tuner.h); the tuning follows.
    // After a loss those that are left are known to be so.
    bool measure_shares = false;
    ExchangeOptions exchange = {};
    PlanTuner::Options tuning = {};
    bool trace = false;      // see trace(); the communicator keeps one, too
    Clock* clock = nullptr;  // borrowed, the communicator's; null: the system's
    // Where ranks are lost in train_epoch() or barrier(), the others take over their shards, redo
    // the step that was interrupted, and return what they would have; they begin with the first
    // plan again, and tune it anew. By a communicator that
    // regroups; the loss of its lowest rank is still a RankLost. Keeps what the last step's updates
    // replaced (step_undo.h).
    bool regroup = false;
    // Moments of a sharded optimizer are lost with their rank. The others then go back to what this
    // gives the lowest rank: the last checkpoint() that was kept, or beginning(); train_epoch() and
    // checkpoint() are a WentBack on all of them. Where ranks have none, it is a RankLost.
    std::function<Checkpoint()> saved = {};
  };

  // As Trainer, of `config.shards` shards, at least one for each rank; by a communicator that has
  // one call in flight, because what completes a bucket needs the call before. Throws Error
  // likewise, and as ExchangeSync does; no ranks regroup whose memory is a device's.
  DataParallel(Model model, std::vector<std::string> trainable, const Device& device,
               TrainerConfig config, std::unique_ptr<Communicator> communicator,
               const Options& options);
  ~DataParallel() override;

  // False when `on_step` stopped it on some rank: all ranks do one more step, and stop there.
  bool train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step = {}) override;
  Evaluation evaluate(Dataset& data) override { return trainer_->evaluate(data); }
  const Model& model() override { return trainer_->model(); }
  // Of a sharded optimizer collective.
  Checkpoint checkpoint() override;
  void restore(const Checkpoint& c) override { trainer_->restore(c); }
  int64_t epoch() const override { return trainer_->epoch(); }
  int64_t batch() const override { return trainer_->batch(); }
  void scale_lr(double factor) override { trainer_->scale_lr(factor); }
  void reset_optimizer() override { trainer_->reset_optimizer(); }

  Trainer& trainer() { return *trainer_; }
  Communicator& communicator() override { return *communicator_; }
  // The training is over, with nothing under way: for another one.
  std::unique_ptr<Communicator> take_communicator() { return std::move(communicator_); }
  double exposed_s() const { return communicator_->waited_s(); }  // in all, for other ranks
  int regrouped() const { return regrouped_; }                    // so many times
  const CommPlan& plan() const { return sync_->plan(); }
  std::vector<RankShare> measured_shares() const;  // of the ranks that are left; none: not measured
  // These two are collective, between epochs, and flush. What steps took, on all ranks; RankLost
  // where they have regrouped and done none since.
  const ExchangeReport& exchange_report();
  // At rank 0 what all ranks did in the first steps (rank_trace.h), else empty.
  std::string trace();
  // Returns when all ranks have come here: what a rank leaves others need not miss.
  void barrier();

  // Throws `lost` also where Options::regroup is not on, or ranks went back: WentBack.
  void regroup_after(const RankLost& lost) override;
  void on_shards(const OnShards& f) override { on_shards_ = f; }
  ShardRange own_shards() const override;
  int shards() const override { return shards_; }
  const std::vector<TensorType>& row_types() const override { return trainer_->row_types(); }

 private:
  bool train_on(Dataset& data, EpochResult& result, const OnStep& on_step);
  bool shards_moments() const { return sync_->plan().shard_optimizer; }
  bool can_regroup(const RankLost& lost) const;
  std::optional<Checkpoint> regroup(RankLost lost);
  std::optional<Checkpoint> agree_and_go_on(const RankLost& lost);
  Checkpoint share_saved();
  int64_t steps_ended() const { return steps_before_ + sync_->ended(); }
  void remember();
  bool tune(const PlanTuner::Place& at);
  void take_shares();
  void say_shares() const;
  ShardRange share_out();
  std::unique_ptr<GradientSync> make_sync(const Trainer::Shared& shared);

  const Options options_;
  const int shards_;
  std::unique_ptr<StepUndo> undo_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Communicator> communicator_;  // ends first: it uses the Trainer's memory
  TimedSync* timed_ = nullptr;                  // the Trainer's
  ExchangeSync* sync_ = nullptr;                // in it
  Clock& clock_;
  std::unique_ptr<PlanTuner> tuner_;
  std::unique_ptr<ShareTuner> share_tuner_;  // until it is done
  std::map<int, double> shard_s_;            // that a shard takes a rank; empty: not measured
  int64_t measured_after_ = -1;              // so many steps
  std::unique_ptr<RankTrace> trace_;         // null: nobody wants one
  std::vector<int> first_shards_;            // of the ranks that are left
  int64_t steps_before_ = 0;                 // that others than sync_ have ended
  std::map<int64_t, Trainer::Position> positions_;  // after so many steps: the last ones
  bool stop_asked_ = false;
  int regrouped_ = 0;
  int64_t regrouped_after_ = -1;  // so many steps, the last time
  OnShards on_shards_;
};

}  // namespace ndtrain
