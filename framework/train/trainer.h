#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/train/epochs.h"
#include "framework/train/gradient_sync.h"
#include "framework/train/prepared_step.h"
#include "framework/train/running_statistics.h"
#include "framework/train/shard_sums.h"
#include "framework/train/step_report.h"
#include "framework/train/trainer_config.h"
#include "framework/train/training.h"

namespace ndtrain {

// Trains one model on rows of its inputs. The order of the rows in an epoch is a function of the
// seed and the epoch; a training stopped at any step and resumed from a checkpoint gives the same
// bytes as one that was not. A loss, a weight or a statistic that is not finite never leaves it:
// Error. A step that fails leaves it as it was. One thread.
class Trainer final : public Training {
 public:
  // What a GradientSync works on; it may keep the references.
  struct Shared {
    ParameterSpace& parameters;
    Optimizer& optimizer;
    const ShardSums& gradients;     // of this process; the first where the parameters' are
    RunningStatistics* statistics;  // null: the model has none
    const Device& device;
  };
  using MakeSync = std::function<std::unique_ptr<GradientSync>(const Shared& shared)>;

  // `model` is what lies behind the cut (or a whole model); `trainable` names initialisers of it.
  // Without `make_sync` it is a LocalSync.
  Trainer(Model model, std::vector<std::string> trainable, const Device& device,
          TrainerConfig config, const MakeSync& make_sync = {});
  ~Trainer() override;

  // Does ahead what the first step and the first evaluation of datasets of so many rows would do
  // besides their rows: makes their plans, and touches their memory, by one of each on zeros that
  // leaves no trace.
  void prepare(int64_t train_rows, int64_t val_rows);

  // Rows of a shard whose step takes about so many bytes; at least 1.
  int64_t rows_that_fit(int64_t bytes) const;
  // Steps have these sizes from now on; between two epochs. None: as config() has them.
  void vary_batches(BatchSizes sizes) { sizes_ = std::move(sizes); }

  bool train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step = {}) override;
  Evaluation evaluate(Dataset& data) override;
  // These flush the updates that are under way. Where an average of the weights is kept
  // (OptimizerConfig::ema), it is in model() and evaluated, beside the running statistics of the
  // training; by ranks that keep a part of the moments each, that is collective.
  const Model& model() override;
  Checkpoint checkpoint() override;
  void restore(const Checkpoint& c) override;
  void reset_optimizer() override;

  // Where a training stands, but for parameters and moments.
  struct Position {
    EpochCounts counts;
    int64_t optimizer_steps = 0;
    LossScale loss_scale;
    std::map<std::string, Tensor> statistics;
  };
  // Between two steps, whatever updates are under way.
  Position position() const;
  // Goes on from there with a GradientSync of `make_sync`, in place of the one that was, and doing
  // `own` shards: whatever that one had under way is given up, also in the middle of a step that
  // threw.
  void go_on(const Position& from, ShardRange own, const MakeSync& make_sync);
  // The same from a checkpoint: of the moments here, all or a part, nothing is needed.
  void go_on(const Checkpoint& from, ShardRange own, const MakeSync& make_sync);
  // Of a training like this one that has done no step, and begins with `model`.
  Checkpoint beginning(const Model& model) const;

  // Where ranks do not tell one another of each step: what all of them know of the unfinished epoch
  // replaces what this one does.
  const EpochCounts& counts() const { return counts_; }
  void set_sums(const EpochCounts& all);

  int64_t epoch() const override { return counts_.epoch; }
  int64_t batch() const override { return config_.batch; }
  void scale_lr(double factor) override { lr_factor_ = factor; }
  const TrainerConfig& config() const { return config_; }
  // Times every node of the steps from now on, those of the optimizer too.
  void set_profiling(bool on);
  // Of the last step, in order; of no step, nothing.
  std::vector<Executor::NodeTime> profile() const;

  int64_t parameter_count() const;
  double clip_exposed_s() const;  // its GradientSync's
  // Types of the dataset's inputs for a batch of 1, in order.
  const std::vector<TensorType>& row_types() const { return row_types_; }

 private:
  Shared shared();
  StepGraph step_of(int64_t rows) const;
  PreparedStep& step_for(int64_t rows);
  void run_step(Dataset& data, const RowOrder& order, double lr);
  void run_shard(Dataset& data, const RowOrder& order, int shard, int64_t step, bool follow);
  void run_part(Dataset& data, std::span<const int64_t> rows, int64_t of, const ShardPart& part,
                int64_t step, bool follow);
  void compute(PreparedStep& s, const ShardPart& part, int64_t step, const Hooks& hooks);
  Hooks hooks(const PreparedStep& s, const ShardPart& part);
  void leave_empty(int shard);
  void conclude(int64_t rows);
  bool accept(const StepReport& all);
  void make_own(const std::map<std::string, Tensor>& statistics);
  BatchPlans inference();  // with the current parameters; lives no longer than they stay
  std::vector<std::pair<std::string, Shape>> trainable_shapes() const;  // in the order asked for

  Model model_;
  std::vector<std::string> trainable_;
  const Device& device_;
  TrainerConfig config_;
  std::vector<TensorType> row_types_;
  std::unique_ptr<ParameterSpace> parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<GradientSync> sync_;
  ShardRange own_;
  std::unique_ptr<ShardSums> gradients_;
  std::unique_ptr<RunningStatistics> statistics_;           // null: the model has none
  std::vector<ShardReport> reports_;                        // of the last step, of each shard
  std::map<int64_t, std::unique_ptr<PreparedStep>> steps_;  // by batch size
  BatchSizes sizes_;
  const PreparedStep* last_ = nullptr;
  bool profiling_ = false;
  EpochCounts counts_;
  double lr_factor_ = 1;
  LossScale loss_scale_;
  double clip_exposed_before_s_ = 0;  // by the GradientSyncs that were
};

}  // namespace ndtrain
