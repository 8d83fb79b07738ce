#include "framework/train/step_report.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "framework/comm/sum_tree.h"

namespace ndtrain {

StepReport sum_of(std::span<const ShardReport> reports) {
  StepReport all;
  std::vector<Addend> losses;
  const int shards = static_cast<int>(reports.size());
  for (int v = 0; v < shards; ++v) {
    const ShardReport& r = reports[static_cast<size_t>(v)];
    losses.push_back({{v, v + 1}, &r.loss});
    all.hits += static_cast<double>(r.hits);
    all.top5 += static_cast<double>(r.top5);
    all.finite = all.finite && r.finite != 0;
    all.sound = all.sound && r.sound != 0;
  }
  add_in_tree_order(losses, shards, {&all.loss, 1});
  return all;
}

std::string why_lost(const StepReport& step, const LossScale& scale) {
  const bool lowest = scale.value <= LossScale::kLowest;
  if (!step.finite && lowest) return fmt::format("gradients are not finite{}", kDiverged);
  if (!step.finite || std::isfinite(step.loss)) return "";
  return fmt::format("the loss is {:f}{}", step.loss,
                     step.sound ? kDiverged : "; what is trained on has NaN or Inf");
}

}  // namespace ndtrain
