// The epochs of a training, step by step: which rows, at which learning rate.
#pragma once

#include <functional>
#include <span>

#include "framework/train/row_order.h"
#include "framework/train/step_report.h"
#include "framework/train/trainer_config.h"
#include "framework/train/training.h"
#include "framework/train/varying_order.h"

namespace ndtrain {

// Where a training stands, and sums over the steps of the unfinished epoch.
struct EpochCounts {
  int64_t epoch = 0, step = 0;
  int64_t used = 0;  // rows of the dataset, where steps vary: RowOrder::used()
  double loss_sum = 0, correct = 0, correct_top5 = 0, rows = 0;

  // A step of so many rows.
  void add(const StepReport& report, int64_t step_rows);

  // In a checkpoint. Throws Error where there is no such place.
  void save(Checkpoint& to) const;
  static EpochCounts of(const Checkpoint& c);
};

// What all epochs of a training have in common.
struct EpochPlan {
  const TrainerConfig& config;
  ShardRange own;
  bool batch_statistics = false;
  double lr_factor = 1;
  // Steps are run in groups of so many, counted from the beginning of the epoch.
  int64_t together = 1;
  BatchSizes sizes = {};  // of steps; none: as `config` has them
};

// A step that has rows.
struct EpochStep {
  int64_t step = 0;  // of the epoch, from 0
  double lr = 0;
};

// Runs the rest of the current epoch of `data_rows` rows: run_steps() for those steps of each group
// that have rows, unless none has, and then `on_steps`. False when that stopped it.
bool run_epoch(
    const EpochPlan& plan, int64_t data_rows, EpochCounts& counts, EpochResult& result,
    const std::function<void(const RowOrder& order, std::span<const EpochStep> steps)>& run_steps,
    const Training::OnStep& on_steps);

}  // namespace ndtrain
