// How verbs that train are told which optimizer they train with.
#pragma once

#include "cli/args.h"
#include "framework/train/optimizer.h"

namespace ndtrain::cli {

// The flags --opt, --momentum, --dampening, --nesterov, --alpha, --centered, --amsgrad and
// --weight-decay, and what they say. Throws UsageError where they do not go together.
void declare_optimizer(ArgsSpec& args);
OptimizerConfig optimizer_of(const Args& args);

}  // namespace ndtrain::cli
