// A training by stages: each rank has some of the layers, and hands values to the others. By a
// schedule that is synchronous it gives what one process gives that computes each step in as many
// parts. By another one a stage computes on parameters that are PipelineSchedule::delay() updates
// old, and takes a mini-batch back on those it was forwarded with (Narayanan et al., "PipeDream",
// SOSP'19; AshPipe); each update is of the newest. All that is under way is applied, the pipeline
// is drained, behind every so many steps of an epoch and at its end. A training stops there, so
// that one that goes on from a checkpoint gives what an unbroken one does.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/parallel/exchange_sync.h"
#include "framework/parallel/plan_tuner.h"
#include "framework/parallel/ranked_training.h"
#include "framework/pipeline/run/pipeline_interpreter.h"
#include "framework/pipeline/run/stage_weights.h"
#include "framework/pipeline/run/step_seconds.h"
#include "framework/pipeline/run/step_talk.h"
#include "framework/train/epochs.h"
#include "framework/train/optimizer.h"
#include "framework/train/training.h"

namespace ndtrain {

// Ranks whose stages read rows, as the first one does, or labels, as the last one does, fetch all
// of them, the others none. After an Error that the others have no part in, as of a label that is
// no class, they have lost this one.
class PipelineTraining final : public RankedTraining {
 public:
  struct Options {
    std::string schedule = "1f1b";
    int chunks = 1;  // stages of a rank
    // Ranks that share the rows of each stage, which are a rank's only one then (stage_ranks.h);
    // none: one of each. They are shards of a step, as a Trainer has them, but of rows that follow
    // one another: each has batch statistics and dropout of its own.
    std::vector<int> replicas = {};
    // How these exchange gradients: plan_by_sizes.h has the names.
    std::string sync = "ddp";
    // Of a schedule that goes by times: these are measured in the first steps (plan_tuner.h). What
    // is to be told to people, by the first replica of a stage.
    std::function<void(const std::string& line)> say = {};
    // Stages that keep what came in alone, and compute the forward pass again before they take it
    // back. By stage; none: no stage does.
    std::vector<bool> recompute = {};
    int64_t drain_every = 100;  // steps, where there are several versions of parameters
    Staleness staleness = {};   // of these
    // The stage of each forward node of a step; there are ranks x chunks of them. Empty:
    // cut_by_operations().
    std::function<std::vector<int>(const StepGraph& step, int stages)> cut = {};
    Clock* clock = nullptr;  // borrowed; null: the system's
  };

  // Of micro-batches that are TrainerConfig::accumulate parts of a step: those a Trainer would
  // compute one after the other. A step of few rows has fewer. Throws Error as Trainer and
  // make_stages() do, of shards, of gradients that are clipped, of f16; where replicas do not fit
  // the ranks, or a value between stages of different ones does not have images first.
  PipelineTraining(Model model, std::vector<std::string> trainable, const Device& device,
                   const TrainerConfig& config, std::unique_ptr<Communicator> communicator,
                   const Options& options);
  ~PipelineTraining() override;

  // False when `on_step` stopped it on some rank: all ranks stop where they are drained next, which
  // they are behind each step of a schedule that is synchronous. Called behind each step of this
  // rank. After an Error the parameters are of no step: restore() some.
  bool train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step = {}) override;
  // Each rank does all of it, with all parameters.
  Evaluation evaluate(Dataset& data) override;
  const Model& model() override;
  Checkpoint checkpoint() override;
  void restore(const Checkpoint& c) override;
  int64_t epoch() const override { return counts_.epoch; }
  int64_t batch() const override { return config_.batch; }
  void scale_lr(double factor) override { lr_factor_ = factor; }
  void reset_optimizer() override;
  bool gathered() const override { return whole_.has_value(); }
  void gather() override { (void)whole(); }
  int shards() const override { return 1; }
  ShardRange own_shards() const override { return {0, fetches_ ? 1 : 0}; }

  // What there is of a stage, of any of them.
  struct StageSize {
    int rank = 0, replicas = 1;  // the first of so many
    size_t nodes = 0;            // forward
    std::string first, last;
    int64_t parameters = 0;  // trained
    int versions = 1;        // of these at once
    int64_t sent_bytes = 0;  // to later stages, for a row
  };
  const std::vector<StageSize>& stages() const { return sizes_; }
  int64_t parameter_count() const;                                     // of all stages
  int64_t value_bytes() const { return interpreter_->value_bytes(); }  // memory of this rank
  const std::vector<TensorType>& row_types() const override { return row_types_; }
  const TrainerConfig& config() const { return config_; }
  Communicator& communicator() override { return *communicator_; }
  // The training is over, with nothing under way: for another one.
  std::unique_ptr<Communicator> take_communicator() { return std::move(communicator_); }
  // All that this rank's stages take: parameters in their versions, with gradients and moments,
  // values of micro-batches, and what passes work in; not what backends pack of constants.
  int64_t memory_bytes() const;
  double waited_s() const { return communicator_->waited_s(); }  // in all, for other ranks
  double step_s() const { return seconds_.median(); }            // of the last epoch; 0: not known

 private:
  StepGraph step_of(int64_t rows) const;
  void make_state(const StepGraph& step, std::span<const Stage> stages);
  void check_routes(const StepGraph& step, std::span<const Stage> stages) const;
  void make_sync(const Options& options);
  void tune(const EpochStep& last, int64_t steps_of_epoch);
  int parts_of(int64_t rows) const;
  int place() const { return ranks_.place_of(communicator_->rank()); }
  int replica() const { return ranks_.replica_of(communicator_->rank()); }
  void measure(const StepGraph& step, std::span<const Stage> stages);
  // Steps, and a flush behind them.
  void run_steps(Dataset& data, const RowOrder& order, std::span<const EpochStep> steps,
                 const OnStep& on_step);
  void run_drained(Dataset& data, const RowOrder& order, std::span<const EpochStep> steps,
                   const OnStep& on_step);
  void interpret(Dataset& data, const RowOrder& order, std::span<const EpochStep> steps,
                 std::span<const StageWeights::Step> hyper, const OnStep& on_step);
  void add_up_statistics();
  void update(int stage, size_t step, std::span<const StageWeights::Step> hyper);
  Checkpoint own_part() const;
  const Checkpoint& whole();

  Model model_;
  const std::vector<std::string> trainable_;
  const Device& device_;
  const TrainerConfig config_;
  const std::unique_ptr<PipelineSchedule> schedule_;
  const StageRanks ranks_;
  const int64_t drain_every_;
  std::vector<TensorType> row_types_;
  std::vector<StageSize> sizes_;
  bool batch_statistics_ = false;
  bool fetches_ = false;
  std::unique_ptr<ParameterSpace> parameters_;  // of this rank's stages, as the next three
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<ShardSums> gradients_;
  std::unique_ptr<RunningStatistics> statistics_;  // null: they have none
  std::map<int, ParameterRange> ranges_;           // of its stages
  std::optional<RankState> state_;
  std::unique_ptr<StageWeights> weights_;
  std::unique_ptr<GradientSync> sync_;  // between replicas of its stage; null: it is alone
  std::unique_ptr<PlanTuner> tuner_;    // of a schedule that goes by times
  std::unique_ptr<PipelineInterpreter> interpreter_;
  EpochCounts counts_;
  LossScale loss_scale_;
  double lr_factor_ = 1;
  std::unique_ptr<StepTalk> talk_;
  StepSeconds seconds_;
  bool stop_asked_ = false, stopped_ = false;
  std::optional<Checkpoint> whole_;             // of all ranks, until something changes
  std::unique_ptr<Communicator> communicator_;  // ends first: it uses the others' memory
};

}  // namespace ndtrain
