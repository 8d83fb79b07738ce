#include "framework/train/epochs.h"

#include <algorithm>
#include <cmath>
#include <memory>
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
  to.used = used;
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
          .used = c.used,
          .loss_sum = c.loss_sum,
          .correct = c.correct,
          .correct_top5 = c.correct_top5,
          .rows = c.rows};
}

namespace {

std::unique_ptr<RowOrder> order_of(const EpochPlan& plan, int64_t data_rows,
                                   const EpochCounts& counts) {
  const TrainerConfig& config = plan.config;
  if (plan.sizes) {
    const VaryingOrder::Data data{
        .rows = data_rows, .batch = config.batch, .no_single_rows = plan.batch_statistics};
    return std::make_unique<VaryingOrder>(data, plan.sizes, plan.own, config.seed, counts.epoch,
                                          counts.step, counts.used);
  }
  if (counts.used > 0) {
    throw Error("epoch ", counts.epoch + 1, " was begun with steps of varying sizes (", counts.used,
                " rows): it goes on with them, or a run begins anew");
  }
  const EpochOrder::Data data{.rows = data_rows,
                              .batch = config.batch,
                              .shards = config.shards,
                              .no_single_rows = plan.batch_statistics};
  return std::make_unique<EpochOrder>(data, plan.own, config.seed, counts.epoch);
}

}  // namespace

bool run_epoch(
    const EpochPlan& plan, int64_t data_rows, EpochCounts& counts, EpochResult& result,
    const std::function<void(const RowOrder& order, std::span<const EpochStep> steps)>& run_steps,
    const Training::OnStep& on_steps) {
  if (data_rows == 0) throw Error("there is nothing to train on");
  const TrainerConfig& config = plan.config;
  const std::unique_ptr<RowOrder> order = order_of(plan, data_rows, counts);
  const int64_t scheduled =
      plan.sizes ? (data_rows + config.batch - 1) / config.batch : order->steps();
  Schedule schedule = config.schedule;
  schedule.total_steps = scheduled * config.epochs;
  schedule.steps_per_epoch = scheduled;
  schedule.warmup_steps =
      static_cast<int64_t>(config.warmup_epochs * static_cast<double>(scheduled));
  const auto lr_of = [&](int64_t step) {
    return plan.lr_factor *
           learning_rate(schedule, counts.epoch % config.epochs * scheduled + step);
  };
  while (counts.step < order->steps()) {
    const int64_t end = std::min(order->steps(), (counts.step / plan.together + 1) * plan.together);
    std::vector<EpochStep> steps;
    for (int64_t step = counts.step; step < end; ++step) {
      order->begin_step(step);
      if (order->row_count(step) > 0) steps.push_back({step, lr_of(order->scheduled(step))});
    }
    if (!steps.empty()) run_steps(*order, steps);
    counts.step = end;
    counts.used = order->used();
    if (on_steps && !on_steps(end, order->steps()) && end < order->steps()) return false;
  }
  result = {.epoch = counts.epoch,
            .loss = counts.loss_sum / std::max(counts.rows, 1.0),
            .top1 = counts.correct / std::max(counts.rows, 1.0),
            .top5 = counts.correct_top5 / std::max(counts.rows, 1.0),
            .lr = lr_of(scheduled - 1)};
  counts = {.epoch = counts.epoch + 1};
  return true;
}

}  // namespace ndtrain
