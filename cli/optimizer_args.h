// How verbs that train are told which optimizer they train with, what a step of it is, and how fast
// it learns.
#pragma once

#include "cli/args.h"
#include "framework/train/optimizer.h"

namespace ndtrain::cli {

// The flags --opt, --momentum, --dampening, --nesterov, --alpha, --centered, --amsgrad,
// --weight-decay, --clip-norm and --accumulate, and what they say. Throw UsageError where they do
// not go together, or are out of range.
void declare_optimizer(ArgsSpec& args);
OptimizerConfig optimizer_of(const Args& args);
int64_t accumulate_of(const Args& args);

// The flags --sched and --warmup.
void declare_schedule(ArgsSpec& args);

}  // namespace ndtrain::cli
