#include "framework/train/epochs.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ndtrain {

void EpochCounts::add(const StepReport& report, int64_t step_rows) {
  if (!std::isfinite(report.loss)) return;
  loss_sum += static_cast<double>(report.loss) * static_cast<double>(step_rows);
  correct += report.hits;
  correct_top5 += report.top5;
  rows += static_cast<double>(step_rows);
}

void EpochCounts::save(Checkpoint& to) const {
  to.epoch = epoch;
  to.step = step;
  to.loss_sum = loss_sum;
  to.correct = correct;
  to.correct_top5 = correct_top5;
  to.rows = rows;
}

EpochCounts EpochCounts::of(const Checkpoint& c) {
  if (c.epoch < 0 || c.step < 0) {
    throw Error("checkpoint: epoch ", c.epoch, ", step ", c.step, " is no place to go on from");
  }
  return {.epoch = c.epoch,
          .step = c.step,
          .loss_sum = c.loss_sum,
          .correct = c.correct,
          .correct_top5 = c.correct_top5,
          .rows = c.rows};
}

bool run_epoch(
    const EpochPlan& plan, int64_t data_rows, EpochCounts& counts, EpochResult& result,
    const std::function<void(const EpochOrder& order, std::span<const EpochStep> steps)>& run_steps,
    const Training::OnStep& on_steps) {
  if (data_rows == 0) throw Error("there is nothing to train on");
  const TrainerConfig& config = plan.config;
  const EpochOrder order({.rows = data_rows,
                          .batch = config.batch,
                          .shards = config.shards,
                          .no_single_rows = plan.batch_statistics},
                         plan.own, config.seed, counts.epoch);
  const int64_t total = order.steps();
  Schedule schedule = config.schedule;
  schedule.total_steps = total * config.epochs;
  schedule.steps_per_epoch = total;
  schedule.warmup_steps = static_cast<int64_t>(config.warmup_epochs * static_cast<double>(total));
  const auto lr_of = [&](int64_t step) {
    return plan.lr_factor * learning_rate(schedule, counts.epoch % config.epochs * total + step);
  };
  while (counts.step < total) {
    const int64_t end = std::min(total, (counts.step / plan.together + 1) * plan.together);
    std::vector<EpochStep> steps;
    for (int64_t step = counts.step; step < end; ++step) {
      if (order.row_count(step) > 0) steps.push_back({step, lr_of(step)});
    }
    if (!steps.empty()) run_steps(order, steps);
    counts.step = end;
    if (on_steps && !on_steps(end, total) && end < total) return false;
  }
  result = {.epoch = counts.epoch,
            .loss = counts.loss_sum / std::max(counts.rows, 1.0),
            .top1 = counts.correct / std::max(counts.rows, 1.0),
            .top5 = counts.correct_top5 / std::max(counts.rows, 1.0),
            .lr = lr_of(total - 1)};
  counts = {.epoch = counts.epoch + 1};
  return true;
}

}  // namespace ndtrain
