// How verbs that train are told which optimizer they train with, what a step of it is, and how fast
// it learns.
#pragma once

#include <string>
#include <vector>

#include "cli/args.h"
#include "framework/train/optimizer.h"
#include "ndp/jobs/best_metric.h"

namespace ndtrain::cli {

// The flags --opt, --momentum, --dampening, --nesterov, --alpha, --centered, --amsgrad,
// --weight-decay, --layer-decay, --lr-of, --clip-norm, --ema and --accumulate, and what they say.
// Throw UsageError where they do not go together, or are out of range.
void declare_optimizer(ArgsSpec& args);
OptimizerConfig optimizer_of(const Args& args);
std::vector<std::string> rates_of_names(const Args& args);  // "NAME=F" each, as --lr-of has them
int64_t accumulate_of(const Args& args);

// The flag --best: what the best epoch has most of. best_of() throws UsageError.
void declare_best(ArgsSpec& args);
ndp::BestMetric best_of(const Args& args);

// The flags --sched and --warmup.
void declare_schedule(ArgsSpec& args);

}  // namespace ndtrain::cli
